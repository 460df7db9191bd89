"""Chains that run by themselves, each with keys, tuning and a checkpoint of its own."""

import dataclasses
import time
from contextlib import ExitStack
from typing import Any

import jax

from srmc._attempt import attempt
from srmc._files import Place, write_json
from srmc._progress import Show
from srmc.models.problem import Problem, without_slashes
from srmc.results.result import Result
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.ending import about_run
from srmc.sample.finish import How
from srmc.sample.parts import ABOUT, SUMS, Part, concluded, folder_of
from srmc.sample.running import Running, key_of
from srmc.sample.sums import sums_of, write_sums
from srmc.sample.task import check_names, dim_of, first_of, identity
from srmc.types import Position


def each_alone(
    running: Running, folder: Place | None, resume: bool, listed: bool
) -> tuple[Result, list[str]]:
    """The result of the chains that the plan names, one after the other; and what was lost.

    A chain depends on the seed and on its number. `listed` says whether each has a start of its
    own. A chain that a signal stops is in the result only if it is the first.
    """
    plan, stop = running.plan, running.stop
    if folder is not None and (folder / "run.json").exists():
        raise ValueError(f"checkpoint {folder} holds a run of chains together, not of single ones")
    first = start_of(running.problem, plan.seed, plan.num_chains, 0, listed)
    running = running._replace(problem=without_slashes(running.problem, first_of(first)))
    check_names(running.problem, plan, first)
    plan.check_alone(dim_of(first))
    plan.check_room(dim_of(first), on_disk=False)
    # The model is told from others at the start of chain 0, whichever chains run here.
    record = identity(running.problem, plan, first)
    chains, parts, lost = plan.chains or (), list[Part](), list[str]()
    for n, chain in enumerate(chains):
        own = dataclasses.replace(plan, chains=(chain,))
        settings = record["settings"] | own.settings()
        place = None if folder is None else folder_of(folder, chain)
        alone = running._replace(plan=own, show=_as_one_of(running.show, n, len(chains)))
        part = _one(alone, record | {"settings": settings}, place, resume, listed, lost)
        if not parts or part.is_complete:
            parts.append(part)
        if stop.signal is not None:
            break
    stop.at_once = True
    how, last = How.of(plan, running.tuner), running.show if stop.signal is None else stop.show
    result = concluded(parts, running.problem, how, first_of(first), last)
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
    running: Running,
    record: dict[str, Any],
    folder: Place | None,
    resume: bool,
    listed: bool,
    lost: list[str],
) -> Part:
    """One chain, from its start to what it kept."""
    problem, plan, tuner = running[:3]
    (chain,) = plan.chains or ()
    began = time.perf_counter()
    positions = start_of(problem, plan.seed, plan.num_chains, chain, listed)
    with ExitStack() as held:
        store = None
        if folder is not None:
            store = Checkpoint(folder, record, resume, plan.fixed_length(dim_of(positions)))
            held.callback(store.close)
        keys = _keys(plan.seed, chain)[1:]
        begun = running.begin(keys, positions, store, [plan.num_samples])
        ((kept, done),) = begun.kept
        seconds = time.perf_counter() - began
        part = Part(record, about_run(problem, plan, tuner, begun.tuned, done, seconds), kept)
        if store is not None and store.lost:
            lost.append(store.lost)
        elif store is not None and part.is_complete:
            write_json(store.folder / ABOUT, part.about)
    return part


def _as_one_of(show: Show, n: int, count: int) -> Show:
    """Show the progress of chain n of `count` as that of all of them."""

    def shown(what: str, done: int, total: int | None, remark: str = "") -> None:
        if total is not None:
            show(what, n * total + done, count * total, remark)
        elif n == 0:
            show(what, done, total, remark)

    return shown
