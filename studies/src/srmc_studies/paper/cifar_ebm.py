"""Classes that Langevin chains visit on an energy-based model of CIFAR-10.

tab:single_chain is about all states of one chain, tab:cifar_parallel_chains about the last states
of many. The pre-trained model of the paper is replaced by a small one, trained by `srmc train`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from blackjax.base import SamplingAlgorithm
from matplotlib.figure import Figure

import srmc
from srmc.types import Array, Float, Scalar
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Plan
from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper._style import new_figure
from srmc_studies.paper.ebm import sampling

NOISE = 0.01  # of a Langevin step, as in training
TEMPERATURE = NOISE**2 / 2  # and the step size
ALPHAS = (0.15, 1.5, 15.0)  # in units of the network's own score
PLAIN = "ULA"
MEASURES = ("modes covered", "KL(p||u)", "TV", "normalised entropy")
BETTER = (1, -1, -1, 1)  # the sign of an improvement
GROUPS = (100, 50, 10)


def name_of(alpha: float) -> str:
    """The name of a sampler by its strength."""
    return f"SR-ULA, alpha = {alpha:g}" if alpha else PLAIN


def measures(labels: Float[np.ndarray, " sample"]) -> tuple[float, ...]:
    """Modes covered, KL from uniform, total variation from it, and normalised entropy."""
    counts = np.bincount(labels, minlength=10)
    uniform = np.ones(10)
    return (
        float(np.sum(counts > 0)),
        srmc.metrics.kl_divergence(counts, uniform),
        srmc.metrics.total_variation(counts, uniform),
        srmc.metrics.normalised_entropy(counts),
    )


class Run(NamedTuple):
    """Paths by sampler, and what the classifier says about them."""

    paths: dict[str, sampling.Path]
    seen: dict[str, sampling.Classified]


def _run(chains: int, plan: Plan, alphas: tuple[float, ...], seed: int) -> Run:
    from srmc_studies.paper.ebm import networks  # which needs Equinox
    from srmc_studies.paper.ebm.continuous import SHAPE, logdensity

    f = logdensity(networks.load("cifar-ebm"), NOISE)
    classifier = networks.load("cifar-classifier")

    def build(alpha: Scalar) -> SamplingAlgorithm:
        # The history averages s / T, and the product has another 1 / T.
        return srmc.ula(f, TEMPERATURE, **srmc.paper_settings(alpha * TEMPERATURE))

    key = jax.random.key(seed)
    starts = jax.random.uniform(key, (chains, 3072))
    found = sampling.follow(build, alphas, starts, key, plan)
    paths = {name_of(a): path for a, path in zip(alphas, found, strict=True)}
    clipped: Callable[[Array], Array] = lambda x: classifier(x.clip(0, 1))
    classify = sampling.judge(clipped, f, SHAPE)
    return Run(paths, {name: classify(path) for name, path in paths.items()})


def _settings(cards: tuple[str, ...] = ("cifar-ebm", "cifar-classifier")) -> dict[str, object]:
    from srmc_studies.paper.ebm import networks

    return {
        **{name: networks.card(name) for name in cards},
        "step": f"the network's gradient, and noise of {NOISE}",
        "alpha": f"{ALPHAS}, in units of the network's own score; the paper does not state its "
        "value for this experiment",
        "gain": "(n + 1)^-0.6",
        "start": "uniform noise",
    }


def cifar_single(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Classify the states of single chains, ten of each sampler."""
    chains, records, every = (10, 400, 5) if size == "full" else (3, 4, 5)
    plan = Plan(records, every, size == "quick", counter(on_progress, "cifar", records))
    run = _run(chains, plan, (0.0, *ALPHAS), seed)
    values = {
        name: np.array([measures(seen.labels[1:, c]) for c in range(chains)])
        for name, seen in run.seen.items()
    }
    steps = records * every
    settings = _settings() | {
        "chains": f"{chains} of {steps:,} steps; every {every}th state is classified"
    }
    printed = ("5 against 8", "1.492 against 0.558", "0.716 against 0.437", "0.352 against 0.757")
    rows = [
        _row(
            "tab:single_chain, fig:single_chain",
            "Along one chain of 2,000 steps, SR-ULA visits classes more evenly than ULA",
            "; ".join(f"{m} {p}" for m, p in zip(MEASURES, printed, strict=True)),
            values,
            run,
        )
    ]
    return Outcome(settings, _numbers_of(values, run), {"chains": _picture(run, values)}, rows)


def cifar_parallel(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Classify the last states of many chains, in groups of 100, 50 and 10."""
    chains, records, every = (200, 9, 50) if size == "full" else (40, 2, 5)
    scale = 1 if size == "full" else 5  # of which rows name the paper's numbers of chains
    plan = Plan(records, every, size == "quick", counter(on_progress, "cifar", records))
    run = _run(chains, plan, (0.0, ALPHAS[0], ALPHAS[-1]), seed)
    settings = _settings() | {"chains": f"{chains} of {records * every} steps, in groups"}
    printed = {100: "KL 0.3062 against 0.2021", 50: "KL 0.3469 against 0.2257",
               10: "KL 0.8318 against 0.4682, 5 against 7 classes"}  # fmt: skip
    rows: list[Row] = []
    numbers: dict[str, object] = {}
    for group in GROUPS:
        parts = (-1, group // scale)
        values = {
            name: np.array([measures(part) for part in seen.labels[-1].reshape(parts)])
            for name, seen in run.seen.items()
        }
        numbers[f"{group} chains"] = _numbers_of(values, run)
        rows.append(
            _row(
                "tab:cifar_parallel_chains, fig:multi_chain",
                f"The last states of {group} chains of SR-ULA cover classes more evenly than those "
                "of ULA",
                printed[group],
                values,
                run,
            )
        )
    return Outcome(settings, numbers, {"chains": _picture(run, values)}, rows)


def _energies(run: Run) -> dict[str, Estimate]:
    return {name: _numbers.mean(TEMPERATURE * seen.energies[-1]) for name, seen in run.seen.items()}


def _numbers_of(
    values: Mapping[str, Float[np.ndarray, "replicate measure"]], run: Run
) -> dict[str, object]:
    energies = _energies(run)
    return {
        name: {m: _numbers.mean(x[:, k]) for k, m in enumerate(MEASURES)}
        | {
            "energy of the last states": energies[name],
            "gradients per step": run.paths[name].gradients[-1] / run.paths[name].steps[-1],
            "classes": np.bincount(run.seen[name].labels[-1], minlength=10),
        }
        for name, x in values.items()
    }


def _row(
    where: str,
    claim: str,
    paper: str,
    values: Mapping[str, Float[np.ndarray, "replicate measure"]],
    run: Run,
) -> Row:
    plain, energies = values[PLAIN], _energies(run)
    noise = float(TEMPERATURE * run.seen[PLAIN].energies[0].mean())
    lost = [name for name, e in energies.items() if not e.value < noise]
    gains = {
        f"{m}: {name} is better": _numbers.mean(sign * (x[:, k] - plain[:, k]))
        for name, x in values.items()
        if name != PLAIN
        for k, (m, sign) in enumerate(zip(MEASURES, BETTER, strict=True))
    }
    return Row(
        where,
        claim,
        paper,
        {
            f"{m}, {name}": _numbers.mean(x[:, k])
            for k, m in enumerate(MEASURES)
            for name, x in values.items()
        },
        {
            f"{text}, by two standard errors": g.value > 2 * g.error
            and not any(f" {name} " in text for name in lost)
            for text, g in gains.items()
        },
        "Our own small model, not the paper's. Energies of the last states: "
        + ", ".join(f"{name} {e}" for name, e in energies.items())
        + ". Replicates have the same random numbers under every sampler."
        + (
            " A higher energy than that of the start, uniform noise, means that "
            f"{' and '.join(lost)} diverged, and does not count as better, whatever classes are "
            "seen in it."
            if lost
            else ""
        ),
    )


def _picture(run: Run, values: Mapping[str, Float[np.ndarray, "replicate measure"]]) -> Figure:
    figure = new_figure(12, 3.2 + 1.1 * len(run.paths))
    parts = figure.subfigures(2, 1, height_ratios=(1.1 * len(run.paths), 3.2))
    top, bottom = np.atleast_1d(np.asarray(parts))
    axes = np.atleast_1d(top.subplots(len(run.paths), 1))
    for axis, (name, path) in zip(axes, run.paths.items(), strict=True):
        x = path.states[-1] if path.states.shape[1] >= 16 else path.states[:, 0]
        x = x[np.linspace(0, len(x) - 1, 16).astype(int)]
        axis.imshow(np.clip(np.concatenate(list(x.reshape(-1, 32, 32, 3)), axis=1), 0, 1))
        axis.set(xticks=[], yticks=[])
        axis.set_ylabel(name.replace(", ", "\n"), fontsize=7)
    left, right = bottom.subplots(1, 2)
    width = 0.8 / len(values)
    for n, name in enumerate(values):
        labels = run.seen[name].labels
        last = labels[-1] if labels.shape[1] >= 16 else labels[1:].reshape(-1)
        share = np.bincount(last, minlength=10) / last.size
        left.bar(np.arange(10) + width * n, share, width, label=name)
        each = [_numbers.mean(values[name][:, k]) for k in (1, 2, 3)]
        right.errorbar(
            np.arange(3) + width * n / 2,
            [e.value for e in each],
            [1.96 * e.error for e in each],
            fmt="o",
            label=name,
        )
    left.set(xlabel="class", ylabel="share of states", xticks=range(10))
    right.set_xticks(range(3), MEASURES[1:])
    right.legend(fontsize=8)
    return figure
