"""Mixing of an energy-based model of MNIST from one real 7 (fig:mnist_metrics)."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc.types import Float, Scalar
from srmc_studies.paper import _mixing_rows
from srmc_studies.paper._chains import Plan
from srmc_studies.paper._ledger import Outcome
from srmc_studies.paper._mixing_plots import ends, snapshots
from srmc_studies.paper._mixing_rows import Found
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper.ebm import data, sampling
from srmc_studies.paper.ebm.tempered import MOVES, temper

if TYPE_CHECKING:
    from srmc_studies.paper.ebm.networks import BinaryEnergy  # which needs Equinox

ALPHAS = (1e-5, 1e-4, 5e-4)
OURS = (1.0, 10.0)
GAIN = srmc.gain(0.6, scale=0.1)
STEP_SIZE = 0.1


class Size(NamedTuple):
    """The number of chains, of steps and gradients per chain, and of steps between records."""

    chains: int
    steps: int
    every: int
    levels: int
    rounds: int  # of the long tempered run; if few, the first serves


SIZES = {"full": Size(12, 10_000, 25, 12, 300), "quick": Size(3, 20, 5, 2, 2)}


class Arm(NamedTuple):
    """Samplers that differ by their strength, and how many steps they take."""

    names: Sequence[str]
    build: Callable[[Callable[..., Scalar]], Callable[[Scalar], SamplingAlgorithm]]
    strengths: Sequence[float]


def printed(alpha: Scalar | float) -> dict[str, Any]:
    """SR-GWG and SR-DLP as printed, with the gain of the MNIST experiments."""
    return srmc.paper_settings(alpha, discrete=True) | {"gain": GAIN}


def ours(alpha: Scalar | float) -> dict[str, Any]:
    """The Gibbs residual from one gradient in place of the gradient, with the same gain."""
    return {
        "alpha": alpha,
        "gain": GAIN,
        "feature": "relaxed-gibbs",
        "bend": "feature",
        "history_average": False,
    }


def arms() -> list[Arm]:
    """All samplers but the tempered one."""
    space = srmc.Binary()
    return [
        Arm(["GWG"], lambda f: lambda a: srmc.gwg(f, space, **printed(0.0)), [0.0]),
        Arm(
            [f"SR-GWG, alpha = {a:g}" for a in ALPHAS],
            lambda f: lambda a: srmc.gwg(f, space, **printed(a)),
            ALPHAS,
        ),
        Arm(
            [f"SR-GWG, Gibbs residual, alpha = {a:g}" for a in OURS],
            lambda f: lambda a: srmc.gwg(f, space, **ours(a)),
            OURS,
        ),
        Arm(
            ["GWG, 5 sites"],
            lambda f: lambda a: srmc.gwg(f, space, num_sites=5, **printed(0.0)),
            [0.0],
        ),
        Arm(["DLP"], lambda f: lambda a: srmc.dlp(f, space, STEP_SIZE, **printed(0.0)), [0.0]),
        Arm(
            ["SR-DLP, alpha = 0.0001"],
            lambda f: lambda a: srmc.dlp(f, space, STEP_SIZE, **printed(a)),
            [1e-4],
        ),
    ]


def mnist_mixing(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Run all samplers from one real 7, and compare them by steps and by gradients."""
    from srmc_studies.paper.ebm import networks  # which needs Equinox

    model, classifier = (networks.load(name) for name in ("mnist-ebm", "mnist-classifier"))
    s = SIZES[size]
    start, source = first_seven(seed)
    starts = np.repeat(start[None], s.chains, axis=0)
    records, light = s.steps // s.every, size == "quick"
    plans = arms()
    key = jax.random.key(seed)
    paths: dict[str, sampling.Path] = {}
    for n, arm in enumerate(plans):
        tell = counter(on_progress, "mixing", (len(plans) + 2) * records, done=n * records)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the relaxed features are biased is the point
            found = sampling.follow(
                arm.build(model), arm.strengths, starts, key, Plan(records, s.every, light, tell)
            )
        paths |= zip(arm.names, found, strict=True)
    ladder, reference = _tempered(model, starts, s, seed, light)
    paths["parallel tempering"] = ladder
    classify = sampling.judge(classifier, model, (28, 28, 1))
    classified = {name: classify(path) for name, path in paths.items()}
    on_progress("mixing", 1, 1)
    found_all = {name: Found(paths[name], classified[name]) for name in paths}
    weights = _mixing_rows.class_weights(classify(reference))
    numbers = _mixing_rows.numbers(found_all, weights, s.steps)
    return Outcome(
        settings={
            "energy": networks.card("mnist-ebm"),
            "classifier": networks.card("mnist-classifier"),
            "start": f"one 7 of {source}",
            "chains": s.chains,
            "steps": s.steps,
            "states classified": f"every {s.every}th",
            "gain": "0.1 (n + 1)^-0.6",
            "step size of DLP": STEP_SIZE,
            "levels of parallel tempering": s.levels,
            "errors": "jackknife over chains",
        },
        numbers=numbers,
        figures={
            "metrics": ends(numbers),
            "snapshots": snapshots(found_all, s.steps),
        },
        rows=_mixing_rows.rows(found_all, weights, s.steps),
    )


def first_seven(seed: int) -> tuple[Float[np.ndarray, " pixel"], str]:
    """The first 7 of the test images, binarized at random, and where it is from."""
    images = data.digits()
    pixels = images.x_test[np.flatnonzero(images.y_test == 7)[0]].reshape(-1) / 255
    drawn = np.random.default_rng(seed).random(pixels.shape) < pixels
    return drawn.astype(np.float32), images.source


def _tempered(
    model: "BinaryEnergy", starts: Float[np.ndarray, "chain pixel"], s: Size, seed: int, light: bool
) -> tuple[sampling.Path, sampling.Path]:
    """Parallel tempering at the budget of the others, and the long run of fewer chains."""
    betas = np.linspace(1, 0, s.levels)
    key = jax.random.key(seed + 1)
    rounds = max(2, s.steps // ((MOVES + 1) * s.levels))
    arm = temper(model, jnp.asarray(starts), key, betas, Plan(rounds, 1, light), STEP_SIZE)
    if s.rounds <= rounds:
        return arm.path, arm.path
    few = jnp.asarray(starts[: max(2, s.chains // 3)])
    plan = Plan(s.rounds, 1, light)
    long = temper(model, few, jax.random.fold_in(key, 1), betas, plan, STEP_SIZE)
    return arm.path, long.path
