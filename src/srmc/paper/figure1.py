"""Figure 1: a narrow trap beside a broad mode, in one picture and over many chains."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

import srmc
from srmc.paper import _numbers
from srmc.paper._chains import run
from srmc.paper._figure1_plots import escape_picture, fields_picture
from srmc.paper._ledger import Outcome, Progress, Row

STEP_SIZE = 0.01
ALPHAS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0)
PRINTED = 3.0  # the paper's alpha
PIECE = 5_000  # steps of a trajectory that are kept together
SHOWN = (1_000, 2_000, 3_000, 100_000)  # steps of the picture
RIGHT = 0.2 * norm.cdf(2.0) + 0.8 * norm.cdf(-2.0 / 0.18)  # P(x_1 > 0)


def figure1(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Escape from the narrow mode: ULA and SR-ULA as printed, and over alphas, tilt and shift."""
    chains, steps, block = 256 if size == "full" else 16, 100_000, 500
    target = srmc.targets.mixture()
    surrogates = {"tilt": srmc.tilt()} | ({"shift": srmc.shift()} if size == "full" else {})
    blocks = steps // block
    runs = {}
    for done, (name, surrogate) in enumerate(surrogates.items()):
        tell = lambda n, done=done, name=name: on_progress(
            "figure1", done * blocks + n, len(surrogates) * blocks, name
        )
        build = _sampler(target, surrogate)
        runs[name] = _escapes(build, chains, blocks, block, jax.random.key(seed), tell)
    shown = SHOWN if size == "full" else SHOWN[:3]
    length = -(-shown[-1] // PIECE) * PIECE
    path = _paths(_sampler(target, surrogates["tilt"]), length, jax.random.key(seed))
    numbers = {
        name: [_summary(kept, k, steps) for k in range(len(ALPHAS))] for name, kept in runs.items()
    }
    figures = {
        "fields": fields_picture(target, path, PRINTED, shown),
        "escapes": escape_picture(runs, ALPHAS, RIGHT, steps),
    }
    settings = {
        "target": "0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I)",
        "start": "(-2, 0)",
        "step size": STEP_SIZE,
        "gain": "0.1 (n + 2)^-0.6",
        "alpha": ALPHAS,
        "chains": chains,
        "steps": steps,
        "escaped": "the first coordinate has been above 0",
        "picture": "the chain that the seed gives, not a chosen one",
    }
    return Outcome(settings, numbers, figures, _rows(runs["tilt"], target, steps, block))


def _sampler(target, surrogate):
    return lambda alpha: srmc.ula(
        target.logdensity_fn,
        STEP_SIZE,
        alpha=alpha,
        gain=srmc.gain(rho=0.6, scale=0.1, delay=2),
        surrogate=surrogate,
        frame="fixed",
    )


def _starts(settings, chains):
    return np.broadcast_to(np.array([-2.0, 0.0], np.float32), (settings, chains, 2))


def _escapes(build, chains, blocks, block, rng_key, on_block):
    """First passage, share of steps on the right, and the last theta of each block; by alpha."""

    def fold(kept, setting, state, info, n):
        right = state.position[0] > 0
        return {
            "first": jnp.minimum(kept["first"], jnp.where(right, n, jnp.inf)),
            "right": kept["right"] + right / block,
            "theta": state.theta,
        }

    kept = run(
        build,
        jnp.array(ALPHAS),
        _starts(len(ALPHAS), chains),
        rng_key,
        num_blocks=blocks,
        block=block,
        empty={"first": jnp.inf, "right": 0.0, "theta": jnp.zeros(2)},
        fold=fold,
        on_block=on_block,
    ).kept
    kept["escape"] = kept["first"].min(axis=2)
    # Back: after the escape, a whole block on the left.
    after = np.cumsum(kept["right"] > 0, axis=2) > 0
    kept["returned"] = (after & (kept["right"] == 0)).any(axis=2)
    return kept


def _paths(build, steps, rng_key, every=20):
    """Positions and thetas of one chain of ULA and one of SR-ULA, each so many-th."""

    def fold(kept, setting, state, info, n):
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
        num_blocks=steps // PIECE,
        block=PIECE,
        empty={"position": empty, "theta": empty},
        fold=fold,
        light=True,
    ).kept
    return {k: x.reshape(2, -1, 2) for k, x in kept.items()} | {"every": every}


def _summary(kept, k, steps):
    escape = kept["escape"][k]
    return {
        "alpha": ALPHAS[k],
        "escaped_by_2000": _numbers.share(escape <= 2000),
        "escaped_by_the_end": _numbers.share(escape <= steps),
        "median_escape": _numbers.median(escape),
        "returned": _numbers.share(kept["returned"][k]),
        "weight_right": _numbers.mean(kept["right"][k].mean(axis=1)),
        "exact_weight_right": RIGHT,
    }


def _field_change(target, theta):
    """The relative change of the score field over the picture's grid, for each theta."""
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 15), np.linspace(-3, 3, 11)), -1).reshape(-1, 2)
    score = jax.grad(target.logdensity_fn)

    def change(theta):
        at = lambda x: jax.jvp(score, (x,), (theta,))
        s, hessian = jax.vmap(at)(jnp.asarray(grid, jnp.float32))
        return PRINTED * jnp.linalg.norm(hessian) / jnp.linalg.norm(s)

    return np.asarray(jax.vmap(change)(jnp.asarray(theta)))


def _rows(kept, target, steps, block):
    plain, printed = ALPHAS.index(0.0), ALPHAS.index(PRINTED)
    escape = {"ULA": kept["escape"][plain], "SR-ULA": kept["escape"][printed]}
    trapped = _numbers.share(escape["ULA"] > steps)
    by_2k = {name: _numbers.share(e <= 2000) for name, e in escape.items()}
    medians = {name: _numbers.median(e) for name, e in escape.items()}
    returned = _numbers.share(kept["returned"][printed])
    change = _numbers.median(_field_change(target, kept["theta"][printed, :, -1]))
    strongest = _numbers.mean(kept["right"][-1].mean(axis=1))
    weights = {
        name: _numbers.mean(kept["right"][k].mean(axis=1))
        for name, k in (("ULA", plain), ("SR-ULA", printed))
    }
    faster = by_2k["SR-ULA"].value - by_2k["ULA"].value
    spread = np.hypot(by_2k["SR-ULA"].error, by_2k["ULA"].error)
    off = abs(weights["SR-ULA"].value - RIGHT)
    late = kept["right"][plain, :, kept["right"].shape[2] // 2 :].mean()
    push = np.linalg.norm(kept["theta"][printed, :, 2000 // block - 1], axis=-1)
    push = PRINTED * np.median(push[escape["SR-ULA"] > 2000]) / 0.18
    chance = f"of {len(escape['ULA'])} chains"
    return [
        Row(
            "fig:intro, top row",
            "ULA remains trapped in the narrow mode even after 100k steps",
            "trapped at 100k",
            {f"share trapped after {steps:,} steps": trapped},
            {
                "more than half of the chains are still trapped at the end": trapped.value > 0.5,
                "more than 90% are": trapped.value > 0.9,
            },
            f"Escape is a matter of chance: {chance} {1 - trapped.value:.0%} escaped by the end; "
            "one picture shows one of them.",
        ),
        Row(
            "fig:intro, bottom row",
            "SR-ULA with alpha = 3 escapes by about 2k steps",
            "2k steps",
            {f"{name}, share escaped by 2k": e for name, e in by_2k.items()}
            | {f"{name}, median escape": e for name, e in medians.items()},
            {
                "half of the SR-ULA chains escape within 3k steps": np.median(escape["SR-ULA"])
                <= 3000,
                "more SR-ULA than ULA chains escape by 2k, by two errors": faster > 2 * spread,
            },
            "The average score inside one mode is near zero already: at step 2,000 the field of "
            f"the median trapped chain is moved by {push:.2g} of the narrow mode's width.",
        ),
        Row(
            "fig:intro, bottom row",
            "by 100k SR-ULA has explored the right mode and returned to the left; theta is near 0 "
            "and the adapted field almost the score field",
            "red and gray arrows almost overlap",
            {
                "share of chains that went right and came back": returned,
                "median relative change of the field at the end": change,
            },
            {
                "more than half of the chains went right and came back": returned.value > 0.5,
                "the field differs by less than 10% in the median chain": change.value < 0.1,
            },
            f"The gain is {0.1 * (steps + 2) ** -0.6:.1g} at the end: theta is small, wherever the "
            f"chain is, and changes the field by {change.value:.0%}.",
        ),
        Row(
            "sec:appendix-figure1",
            "the right mode has weight 0.2, and the sampler keeps its target",
            f"P(x_1 > 0) = {RIGHT:.3f}",
            {f"{name}, share of steps on the right": w for name, w in weights.items()}
            | {"SR-ULA with alpha = 10": strongest},
            {
                "SR-ULA is within three errors, or 0.02, of the weight": off
                < max(0.02, 3 * weights["SR-ULA"].error),
                "SR-ULA is closer to it than ULA": off < abs(weights["ULA"].value - RIGHT),
            },
            "Unadjusted steps do not keep the target: in the second half of the run plain ULA "
            f"itself spends {late:.0%} on the right. A strong push adds to that: alpha = 10 leaves "
            f"the narrow mode at once, and spends {strongest.value:.0%} on the right.",
        ),
    ]
