"""Chains that run by themselves, and their parts of a run: read, compared, joined."""

import dataclasses
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc._attempt import attempt
from srmc._files import Place, read_arrays, read_json, write_json
from srmc._progress import Show
from srmc.metrics.errors import at_least_between, batch_means_error
from srmc.models.problem import Labels, Problem, without_slashes
from srmc.rebalance.report import Report, as_record
from srmc.results.kept import Kept, Named
from srmc.results.result import Result
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.identity import compare
from srmc.sample.outcome import How, about_run, diagnosed, rebalance_run
from srmc.sample.running import begin, check_names, identity, key_of
from srmc.sample.stored import Draws, grouped
from srmc.sample.sums import Sums, moments_of, read_sums, sums_of, write_sums
from srmc.sample.task import Call, dim_of, first_of
from srmc.types import Position

ABOUT, SUMS = "about.json", "sums.npz"  # in the folder of a chain that is complete


class Part(NamedTuple):
    """Some chains of a run."""

    record: dict[str, Any]  # what a checkpoint records about its run; its settings name the chains.
    about: dict[str, Any]  # as `Result` has it
    kept: Kept  # what the chains kept, before anything is rebalanced
    labels: Labels = Labels()  # names of axes, if they are known
    sums: Sequence[Sums] = ()  # sums of each chain, in place of what is kept

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run."""
        return self.record["settings"]

    @property
    def is_complete(self) -> bool:
        """Whether the chains have all their draws."""
        wanted = self.settings["num_samples"] // self.settings["thin"]
        return bool(self.about["num_draws"] == wanted)

    @property
    def rebalances(self) -> bool:
        """Whether the draws are plain ones, to be rebalanced."""
        return bool(self.settings["rebalances"])


def folder_of(folder: Place, chain: int) -> Place:
    """The folder of one chain within the checkpoint of its run."""
    return folder / f"chain-{chain}"


def of_folder(folder: Place, draws: bool) -> list[Part]:
    """The chains whose checkpoints are in this folder, or of which it is the checkpoint.

    With `draws` or with their sums.
    """
    if (folder / "run.json").exists():
        return [_of_chain(folder, draws)]
    found = [place for place in folder.glob("chain-*") if (place / "run.json").exists()]
    if not found:
        raise ValueError(
            f"runs must be checkpoints of srmc.sample(..., chains=...), but {folder} has none"
        )
    return [_of_chain(place, draws) for place in found]


def _of_chain(folder: Place, draws: bool) -> Part:
    record = read_json(folder / "run.json")
    settings = record["settings"]
    if not settings.get("chains"):
        raise ValueError(
            f"runs must be of chains that ran by themselves, srmc.sample(..., chains=...), but "
            f"{folder} holds a run of {settings['num_chains']} chains together"
        )
    about = read_json(folder / ABOUT) if (folder / ABOUT).exists() else {}
    if about.get("settings", {}).get("num_samples") != settings["num_samples"]:
        raise ValueError(
            f"chain {settings['chains'][0]} in {folder} is not complete; resume it, or leave it out"
        )
    if settings["keep"] != "draws":
        raise ValueError(
            f"runs of keep={settings['keep']!r} must be given as results, but {folder} is a "
            "checkpoint; result.save writes a file"
        )
    if not draws:
        return Part(record, about, Kept({}), sums=[read_sums(folder / SUMS)])
    checksums = grouped(read_arrays(folder / "state.npz")).get("kept", {})
    stored = Draws(folder / "draws.zarr", about["num_draws"], writable=False)
    stored.restore(checksums, about["num_draws"])
    found = stored.read(about["num_draws"])
    kept = Kept(stats=found["stats"], draws=found["values"], base=found.get("base"))
    return Part(record, about, kept)


def of_result(result: Result, draws: bool) -> Part:
    """The chains of a result before rebalancing, or their sums."""
    if "identity" not in result.about:
        raise ValueError(
            "runs must be results of srmc.sample(..., chains=...); others are whole runs, which "
            "cannot be parts of one"
        )
    if result.interrupted:
        raise ValueError("runs must be complete, but one of the results was interrupted")
    record, kept = result.about["identity"], result.kept
    about = {k: v for k, v in result.about.items() if k not in ("rebalancing", "warnings")}
    if not draws:
        return Part(record, about, Kept({}), result.labels, sums_of(result))
    if record["settings"]["rebalances"]:
        kept = kept._replace(draws=_plain(record, kept), base=None, scored=None)
    elif _is_plain(record["settings"]):
        kept = kept._replace(base=None)
    return Part(record, about, kept, result.labels)


def _plain(record: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """The unconstrained draws of the plain kernel, and their scores if there are such."""
    if record["settings"]["space"] is not None:
        assert kept.base is not None
        (x,) = kept.base.values()
        return {"position": np.asarray(x).reshape(*x.shape[:2], -1)}
    if kept.scored is None or "position" not in kept.scored:
        raise ValueError("runs must have their unconstrained draws; merge their checkpoints")
    return {name: kept.scored[name] for name in ("position", "score")}


def _is_plain(settings: dict[str, Any]) -> bool:
    return settings["alpha"] == 0 and "alpha" not in (settings["repellence"] or {})


def check_together(parts: Sequence[Part]) -> list[str]:
    """Raise unless these are different chains of one run; return what to warn of."""
    if not parts:
        raise ValueError("runs must hold at least one run, got none")
    one = parts[0]
    seen: set[int] = set()
    for part in parts:
        chains = part.settings["chains"]
        if twice := seen.intersection(chains):
            raise ValueError(f"runs must be of different chains, got chain {min(twice)} twice")
        seen.update(chains)
        which = f"chains {one.settings['chains']} and {chains} belong to different runs"
        differences = [
            f"{key} is {one.settings.get(key)!r} and {value!r}"
            for key, value in part.settings.items()
            if key != "chains" and one.settings.get(key) != value
        ]
        if not differences and one.record["shapes"] != part.record["shapes"]:
            differences = [f"a draw is {one.record['shapes']} and {part.record['shapes']}"]
        if differences := differences or model_differs(one, part.record["probe"]):
            raise ValueError(f"runs must belong together, but {which}: {'; '.join(differences)}")
    told = []
    if missing := sorted(set(range(one.settings["num_chains"])) - seen):
        told.append(
            f"of {one.settings['num_chains']} chains {len(missing)} are missing: "
            + ", ".join(map(str, missing[:10]))
            + " ..." * (len(missing) > 10)
        )
    if len({tuple(part.record["versions"].items()) for part in parts}) > 1:
        told.append("the chains were made by different versions of srmc, JAX, BlackJAX or Python")
    return told


def model_differs(part: Part, probe: dict[str, list[float]]) -> list[str]:
    """What differs between the model of some chains and another, in words."""
    precision = np.finfo(float if part.settings["double_precision"] else np.float32).eps
    return compare(part.record["probe"], probe, float(precision))


def concluded(
    parts: Sequence[Part], problem: Problem | None, how: How, first: Position, show: Show
) -> Result:
    """The result of chains that belong together, rebalanced as one run."""
    kept, about = _joined(parts), _about(parts)
    reports, known = list[Report](), list[str]()
    if parts[0].rebalances:
        assert problem is not None
        kept, reports, known = rebalance_run(problem, how, kept, first, show)
    elif _is_plain(parts[0].settings):
        kept = kept._replace(base=kept.draws)
    result = Result(
        kept=kept,
        about=about | {"rebalancing": [as_record(report) for report in reports]},
        shared_history=how.pooled,
        labels=parts[0].labels if problem is None else problem.labels,
        problem=problem,
    )
    return diagnosed(result, known)


def summed(parts: Sequence[Part]) -> Result:
    """The result of sums alone."""
    order = _order(parts)
    sums = [own for part in parts for own in part.sums]
    kept = moments_of([sums[n] for n in order], parts[0].record["shapes"])
    shared = parts[0].settings["shared_history"]
    return diagnosed(Result(kept, _about(parts), shared, labels=parts[0].labels), [])


def _order(parts: Sequence[Part]) -> np.ndarray:
    return np.argsort([chain for part in parts for chain in part.settings["chains"]])


def _about(parts: Sequence[Part]) -> dict[str, Any]:
    """How all were made, with costs added up, and measurements averaged."""
    parts = sorted(
        parts, key=lambda part: min(part.settings["chains"])
    )  # the order in which sums round
    first, abouts = parts[0], [part.about for part in parts]
    chains = sorted(chain for part in parts for chain in part.settings["chains"])
    sizes = np.array([len(part.settings["chains"]) for part in parts], float)
    of = lambda name: [about["measured"].get(name, np.nan) for about in abouts]
    measured = {
        name: float(np.average(of(name), weights=sizes)) for name in first.about["measured"]
    }
    record = first.record | {"settings": first.settings | {"chains": chains}}
    return first.about | {
        "settings": first.about["settings"] | {"chains": chains},
        "measured": measured,
        "seconds": round(sum(about["seconds"] for about in abouts), 3),
        "gradients_of_warmup": sum(about["gradients_of_warmup"] for about in abouts),
        "coordinates": {"kind": "plain"},
        "identity": record,
    }


def _joined(parts: Sequence[Part]) -> Kept:
    """What all chains kept, in their order."""
    order = _order(parts)
    join = lambda *arrays: np.concatenate([np.asarray(x) for x in arrays])[order]
    every = [part.kept for part in parts]
    groups = [(k.stats, k.draws, k.base) for k in every]
    stats, draws, base = jax.tree.map(join, *groups)
    kept = Kept(stats=stats, draws=draws, base=base, batch_sizes=every[0].batch_sizes)
    if every[0].moments is None:
        return kept
    sizes = np.array([len(part.settings["chains"]) for part in parts])
    named = [[k.moments for k in every], [k.base_moments for k in every]]
    moments, base_moments = (_moments(own, order, sizes) for own in named)
    covariance = _covariance(every, sizes * parts[0].about["num_draws"])
    return kept._replace(moments=moments, base_moments=base_moments, covariance=covariance)


def _moments(parts: Sequence[Named | None], order: np.ndarray, sizes: np.ndarray) -> Named | None:
    """Moments of all chains by name; their batches are averaged over the chains."""
    found: Named = {}
    for name in parts[0] or {}:
        of = lambda what, name=name: [part[name][what] for part in parts if part is not None]
        mean, variance = (np.concatenate(of(what))[order] for what in ("mean", "variance"))
        batches = np.average(of("batch_means"), axis=0, weights=sizes)
        error = batch_means_error(batches[None])
        if len(mean) > 1:
            spread = np.var(of("batch_means"), axis=1, ddof=1)  # over the available chains
            within = np.average(spread, axis=0, weights=sizes**2) / len(batches)
            error = at_least_between(mean[:, None], error, within)
        found[name] = {"mean": mean, "variance": variance, "error": error, "batch_means": batches}
    return found if parts[0] is not None else None


def _covariance(parts: Sequence[Kept], counts: np.ndarray) -> np.ndarray | None:
    """The covariance over all chains, pooled over parts with `counts` draws (Chan et al.)."""
    if parts[0].covariance is None:
        return None
    of = lambda named: [np.ravel(named[name]["mean"].mean(axis=0)) for name in sorted(named)]
    means = np.stack([np.concatenate(of(part.moments)) for part in parts])
    means -= np.average(means, axis=0, weights=counts)
    within = sum((n - 1) * part.covariance for n, part in zip(counts, parts, strict=True))
    return (within + (counts * means.T) @ means) / (counts.sum() - 1)


def each_alone(
    call: Call, folder: Place | None, resume: bool, listed: bool
) -> tuple[Result, list[str]]:
    """The result of the chains that the plan names, one after the other; and what was lost.

    A chain depends on the seed and on its number. `listed` says whether each has a start of its
    own. A chain that a signal stops is in the result only if it is the first.
    """
    plan, stop = call.plan, call.stop
    if folder is not None and (folder / "run.json").exists():
        raise ValueError(f"checkpoint {folder} holds a run of chains together, not of single ones")
    first = start_of(call.problem, plan.seed, plan.num_chains, 0, listed)
    call = call._replace(problem=without_slashes(call.problem, first_of(first)))
    check_names(call, first)
    plan.check_alone(dim_of(first))
    plan.check_room(dim_of(first), on_disk=False)
    # The model is fingerprinted at the start of chain 0, whichever chains run here.
    record = identity(call, first)
    chains, parts, lost = plan.chains or (), list[Part](), list[str]()
    for n, chain in enumerate(chains):
        own = dataclasses.replace(plan, chains=(chain,))
        settings = record["settings"] | own.settings()
        place = None if folder is None else folder_of(folder, chain)
        alone = call._replace(plan=own, show=_as_one_of(call.show, n, len(chains)))
        part = _one(alone, record | {"settings": settings}, place, resume, listed, lost)
        if not parts or part.is_complete:
            parts.append(part)
        if stop.signal is not None:
            break
    stop.at_once = True
    last = call.show if stop.signal is None else stop.show
    result = concluded(parts, call.problem, How.of(call), first_of(first), last)
    stop.at_once = False
    result.interrupted = stop.signal is not None or not all(part.is_complete for part in parts)
    if folder is not None and plan.keep.keep == "draws" and not (result.interrupted or lost):
        then, told = "merge(draws=False) does not know these chains", result.about["warnings"]
        attempt("summing up", lambda: _save_sums(folder, result), None, then, told)
    return result, lost


def _save_sums(folder: Place, result: Result) -> None:
    chains = result.about["settings"]["chains"]
    for chain, sums in zip(chains, sums_of(result), strict=True):
        write_sums(folder_of(folder, chain) / SUMS, sums)


def start_of(problem: Problem, seed: int, num_chains: int, chain: int, listed: bool) -> Position:
    """The start of a chain, with an axis of one chain."""
    key = _keys(seed, chain)[0]
    if not listed:
        return problem.starts(key, 1)
    return jax.tree.map(lambda x: x[chain : chain + 1], problem.starts(key, num_chains))


def _keys(seed: int, chain: int) -> Any:
    """The keys of a chain, whatever other chains there are."""
    return jax.random.split(jax.random.fold_in(key_of(seed), chain), 4)


def _one(
    call: Call,
    record: dict[str, Any],
    folder: Place | None,
    resume: bool,
    listed: bool,
    lost: list[str],
) -> Part:
    """One chain, from its start to what it kept."""
    plan = call.plan
    (chain,) = plan.chains or ()
    began = time.perf_counter()
    positions = start_of(call.problem, plan.seed, plan.num_chains, chain, listed)
    with ExitStack() as held:
        store = None
        if folder is not None:
            store = Checkpoint(folder, record, resume, plan.fixed_length(dim_of(positions)))
            held.callback(store.close)
        keys = _keys(plan.seed, chain)[1:]
        begun = begin(call, keys, positions, store, [plan.num_samples])
        ((kept, done),) = begun.kept
        seconds = time.perf_counter() - began
        part = Part(record, about_run(call, begun.tuned, done, seconds), kept)
        if store is not None and store.lost:
            lost.append(store.lost)
        elif store is not None and part.is_complete:
            write_json(store.folder / ABOUT, part.about)
    return part


def _as_one_of(show: Show, n: int, count: int) -> Show:
    """Show the progress of chain n of `count` as progress of the whole run."""

    def shown(what: str, done: int, total: int | None, remark: str = "") -> None:
        if total is not None:
            show(what, n * total + done, count * total, remark)
        elif n == 0:
            show(what, done, total, remark)

    return shown
