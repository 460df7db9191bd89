"""Figure 1: escape from a narrow mode to a broad one, in one picture and over many chains."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from scipy.stats import norm

import srmc
from srmc.repel import RepelInfo, RepelState, Surrogate
from srmc.targets import Target
from srmc.types import Array, Float, Int, PRNGKey, Scalar
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Kept, Number, Plan, run
from srmc_studies.paper._figure1_plots import Escapes, Path, escape_picture, fields_picture
from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Outcome, Row
from srmc_studies.paper._progress import Progress, counter, silent

STEP_SIZE = 0.01
WIDTH = 0.18  # of the narrow mode
ALPHAS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
PRINTED = 3.0  # the paper's alpha
STEPS, BLOCK = 100_000, 500
PIECE = 5_000  # steps of the shown trajectory that are kept together
SHOWN = (1_000, 2_000, 3_000, 100_000)  # steps at which the trajectory is shown
RIGHT = float(0.2 * norm.cdf(2.0) + 0.8 * norm.cdf(-2.0 / WIDTH))  # P(x_1 > 0)
# The shifted target has the score s(x - alpha theta), which the authors' code uses by default.
READINGS = {"tilt": "derivative rule: exact", "shift": "derivative rule: shifted"}
SINGLE = 0.05  # the share of chains from which on a run that is shown is no exception
_PLAIN, _REPELLED = ALPHAS.index(0.0), ALPHAS.index(PRINTED)


def figure1(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Measure escapes from the narrow mode by ULA and SR-ULA, over alphas, with tilt and shift."""
    chains = 256 if size == "full" else 16
    target = srmc.targets.mixture()
    surrogates = {"tilt": srmc.tilt()} | ({"shift": srmc.shift()} if size == "full" else {})
    blocks = STEPS // BLOCK
    total = len(surrogates) * blocks
    runs = {}
    for n, (name, surrogate) in enumerate(surrogates.items()):
        tell = counter(on_progress, "figure1", total, done=n * blocks, remark=name)
        plan = Plan(blocks, BLOCK, on_block=tell)
        runs[name] = _escapes(_sampler(target, surrogate), chains, plan, jax.random.key(seed))
    shown = SHOWN if size == "full" else SHOWN[:3]
    path = _path(_sampler(target, surrogates["tilt"]), shown[-1], jax.random.key(seed))
    numbers: dict[str, object] = {
        name: [_summary(found, k) for k in range(len(ALPHAS))] for name, found in runs.items()
    }
    figures = {
        "fields": fields_picture(target, path, PRINTED, shown),
        "escapes": escape_picture(runs, ALPHAS, RIGHT, STEPS),
    }
    settings: dict[str, object] = {
        "target": "0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I)",
        "start": "(-2, 0)",
        "step size": STEP_SIZE,
        "gain": "0.1 (n + 2)^-0.6",
        "alpha": ALPHAS,
        "chains": chains,
        "steps": STEPS,
        "escape": "the first step at which the first coordinate is positive",
        "picture": "the chain of the given seed, which was not selected",
    }
    rows = [_trapped_row(runs["tilt"])]
    for name, found in runs.items():
        each = [_escape_row(found), _return_row(found, target, name), _weight_row(found)]
        rows += [dataclasses.replace(row, reading=READINGS[name]) for row in each]
    return Outcome(settings, numbers, figures, rows)


def _sampler(target: Target, surrogate: Surrogate) -> Callable[[Number], SamplingAlgorithm]:
    """SR-ULA with the gain of the figure, as a function of alpha."""
    changes = {"gain": srmc.gain(rho=0.6, scale=0.1, delay=2), "surrogate": surrogate}

    def build(alpha: Number) -> SamplingAlgorithm:
        options = srmc.paper_settings(alpha) | changes
        return srmc.ula(target.logdensity_fn, STEP_SIZE, **options)

    return build


def _starts(settings: int, chains: int) -> Float[np.ndarray, "setting chain 2"]:
    return np.broadcast_to(np.array([-2.0, 0.0], np.float32), (settings, chains, 2))


def _escapes(
    build: Callable[[Number], SamplingAlgorithm], chains: int, plan: Plan, rng_key: PRNGKey
) -> Escapes:
    """Run chains from the narrow mode, for every alpha."""

    def fold(
        kept: Kept, alpha: Number, state: RepelState, info: RepelInfo, n: Int[Array, ""]
    ) -> Kept:
        right = state.position[0] > 0
        return {
            "first": jnp.minimum(kept["first"], jnp.where(right, n, jnp.inf)),
            "right": kept["right"] + right / plan.block,
            "theta": state.theta,
        }

    kept = run(
        build,
        jnp.array(ALPHAS),
        _starts(len(ALPHAS), chains),
        rng_key,
        plan,
        empty={
            "first": jnp.asarray(jnp.inf),
            "right": jnp.asarray(0.0),
            "theta": jnp.zeros(2),
        },
        fold=fold,
    ).kept
    right = kept["right"]
    escaped = np.cumsum(right > 0, axis=2) > 0
    returned = (escaped & (right == 0)).any(axis=2)
    return Escapes(kept["first"].min(axis=2), returned, right, kept["theta"])


def _path(
    build: Callable[[Number], SamplingAlgorithm], steps: int, rng_key: PRNGKey, every: int = 20
) -> Path:
    """Run one chain of ULA and one of SR-ULA for at least `steps` steps."""

    def fold(
        kept: Kept, alpha: Number, state: RepelState, info: RepelInfo, n: Int[Array, ""]
    ) -> Kept:
        at = (n - 1) % PIECE // every
        return {
            "position": kept["position"].at[at].set(state.position),
            "theta": kept["theta"].at[at].set(state.theta),
        }

    empty = jnp.zeros((PIECE // every, 2))
    kept = run(
        build,
        jnp.array([0.0, PRINTED]),
        _starts(2, 1),
        rng_key,
        Plan(-(-steps // PIECE), PIECE, light=True),
        empty={"position": empty, "theta": empty},
        fold=fold,
    ).kept
    return Path(kept["position"].reshape(2, -1, 2), kept["theta"].reshape(2, -1, 2), every)


def _summary(found: Escapes, k: int) -> dict[str, object]:
    escape = found.escape[k]
    return {
        "alpha": ALPHAS[k],
        "escaped_by_2000": _numbers.share(escape <= 2000),
        "escaped_by_the_end": _numbers.share(escape <= STEPS),
        "median_escape": _numbers.median(escape),
        "returned": _numbers.share(found.returned[k]),
        "weight_right": _numbers.mean(found.right[k].mean(axis=1)),
        "exact_weight_right": RIGHT,
    }


def _trapped_row(found: Escapes) -> Row:
    escape = found.escape[_PLAIN]
    trapped = _numbers.share(escape > STEPS)
    return Row(
        "fig:intro, top row",
        "ULA remains trapped in the narrow mode even after 100k steps",
        "trapped at 100k",
        {f"share of chains trapped after {STEPS:,} steps": trapped},
        {
            "a run as shown is no exception: 5% of the chains stay trapped": trapped.value
            >= SINGLE,
            "more than half of the chains are still trapped at the end": trapped.value > 0.5,
            "more than 90% of the chains are still trapped at the end": trapped.value > 0.9,
        },
        f"Escape is a matter of chance: {1 - trapped.value:.0%} of {len(escape)} chains escaped by "
        "the end, and the paper's picture shows a single chain.",
    )


def _escape_row(found: Escapes) -> Row:
    escape = {"ULA": found.escape[_PLAIN], "SR-ULA": found.escape[_REPELLED]}
    by_2k = {name: _numbers.share(e <= 2000) for name, e in escape.items()}
    out = escape["SR-ULA"] <= 3000
    as_shown = out & (escape["SR-ULA"] > 1000)
    faster = by_2k["SR-ULA"].value - by_2k["ULA"].value
    spread = float(np.hypot(by_2k["SR-ULA"].error, by_2k["ULA"].error))
    theta = np.linalg.norm(found.theta[_REPELLED, :, 2000 // BLOCK - 1], axis=-1)
    trapped = escape["SR-ULA"] > 2000
    push = PRINTED * float(np.median(theta[trapped] if trapped.any() else theta)) / WIDTH
    return Row(
        "fig:intro, bottom row",
        "SR-ULA with alpha = 3 escapes by about 2k steps",
        "2k steps",
        {f"{name}, share of chains escaped by 2k steps": e for name, e in by_2k.items()}
        | {f"{name}, median step of escape": _numbers.median(e) for name, e in escape.items()},
        {
            "a run as shown is no exception: 5% of the SR-ULA chains escape within 3k steps": bool(
                out.mean() >= SINGLE
            ),
            "half of the SR-ULA chains escape within 3k steps": bool(out.mean() >= 0.5),
            "more SR-ULA than ULA chains escape by 2k steps, by two standard errors": (
                faster > 2 * spread
            ),
            "5% of the SR-ULA chains stay for 1k steps, as the one shown, and escape within 3k": (
                bool(as_shown.mean() >= SINGLE)
            ),
        },
        f"{_numbers.share(as_shown)} of the SR-ULA chains escape between 1k and 3k steps. Within "
        "one mode the average score is already near zero: at step 2,000 alpha theta of the median "
        f"trapped chain is {push:.2g} widths of the narrow mode.",
    )


def _return_row(found: Escapes, target: Target, name: str) -> Row:
    returned = _numbers.share(found.returned[_REPELLED])
    change = _numbers.median(_field_change(target, found.theta[_REPELLED, :, -1], name))
    return Row(
        "fig:intro, bottom row",
        "By 100k steps SR-ULA has explored the right mode and returned to the left; theta is near "
        "0 and the adapted field is almost the score field",
        "red and gray arrows almost overlap",
        {
            "share of chains that went right and came back": returned,
            "median relative change of the field at the end": change,
        },
        {
            "more than half of the chains went right and came back": returned.value > 0.5,
            "the field differs by less than 10% in the median chain": change.value < 0.1,
        },
        f"At the end the gain is {0.1 * (STEPS + 2) ** -0.6:.1g}, so that theta is small wherever "
        f"the chain is; it changes the field by {change.value:.0%}.",
    )


def _field_change(
    target: Target, thetas: Float[np.ndarray, "chain 2"], name: str
) -> Float[np.ndarray, " chain"]:
    """The relative change of the score field over the picture's grid, for each theta."""
    mesh = np.stack(np.meshgrid(np.linspace(-4, 4, 15), np.linspace(-3, 3, 11)), -1)
    grid = jnp.asarray(mesh.reshape(-1, 2), jnp.float32)
    score = jax.grad(target.logdensity_fn)

    def change(theta: Float[Array, " 2"]) -> Scalar:
        s, product = jax.vmap(lambda x: jax.jvp(score, (x,), (theta,)))(grid)
        moved = PRINTED * product
        if name == "shift":
            moved = s - jax.vmap(score)(grid - PRINTED * theta)
        relative: Scalar = jnp.linalg.norm(moved) / jnp.linalg.norm(s)
        return relative

    return np.asarray(jax.vmap(change)(jnp.asarray(thetas)))


def _weight_row(found: Escapes) -> Row:
    ula, repelled, strongest = (
        _numbers.mean(found.right[k].mean(axis=1)) for k in (_PLAIN, _REPELLED, -1)
    )
    off = abs(repelled.value - RIGHT)
    late = found.right[_PLAIN, :, found.right.shape[2] // 2 :].mean()
    return Row(
        "sec:appendix-figure1",
        f"SR-ULA preserves its target, under which P(x_1 > 0) = {RIGHT:.3f} (our claim)",
        NOT_IN_THE_PAPER,
        {
            "ULA, share of steps on the right": ula,
            "SR-ULA, share of steps on the right": repelled,
            f"SR-ULA with alpha = {ALPHAS[-1]:g}, share of steps on the right": strongest,
        },
        {
            "SR-ULA is within three standard errors, or 0.02, of the weight": (
                off < max(0.02, 3 * repelled.error)
            ),
            "SR-ULA is closer to the weight than ULA": off < abs(ula.value - RIGHT),
        },
        "Unadjusted steps do not preserve the target: in the second half of the run plain ULA "
        f"itself spends {late:.0%} of its steps on the right. Strong repulsion adds to that: with "
        f"alpha = {ALPHAS[-1]:g} chains leave the narrow mode at once and spend "
        f"{strongest.value:.0%} of their steps on the right.",
    )
