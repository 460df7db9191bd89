"""Two rivals that the paper names, beside SR-ULA on its Gaussian, all without rejection.

Stein self-repulsive dynamics (Ye et al., 2020) add the direction of Stein variational gradients
from M past positions, taken every `EVERY` steps: with a kernel K,

    x' = x + eta (s(x) + alpha mean_j [K(y_j, x) s(y_j) + grad_y K(y_j, x)]) + sqrt(2 eta) xi.

The adaptive drift (Kim, Song and Liang, 2020) adds a running average m of the scores:

    x' = x + eta (s(x) + a m) + sqrt(2 eta) xi,   m' = beta m + (1 - beta) s(x).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.types import Array, Float, Int, PRNGKey
from srmc_studies.paper import _numbers
from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Estimate, Outcome, Row
from srmc_studies.paper._problems import BURN_IN, problem
from srmc_studies.paper._progress import Progress, silent
from srmc_studies.paper._style import ALPHA_COLOURS, new_figure

STEP_SIZE = 0.01  # that of MALA on the Gaussian
POINTS = 9  # at which errors are compared
MEMORY, EVERY = 10, 100  # past positions of the Stein dynamics, and the steps between them
BETA = 0.9  # of the running average of the adaptive drift

Vector: TypeAlias = Float[Array, " d"]
Carry: TypeAlias = tuple[object, Vector, Vector]  # a state, and sums of positions and squares
Sampler: TypeAlias = tuple[Callable[[Vector], object], Callable[..., tuple[object, Vector]]]


class Method(NamedTuple):
    """A sampler with one strength, and the gradients of its step."""

    family: str
    strength: float
    gradients: int

    @property
    def name(self) -> str:
        """The name in tables and pictures."""
        return self.family if not self.strength else f"{self.family}, {self.strength:g}"


class Found(NamedTuple):
    """Squared errors of the mean at some steps since burn-in, and the variance at the end."""

    errors: Float[np.ndarray, "replicate point"]
    variance: Float[np.ndarray, " replicate"]  # over that of the target, averaged over coordinates


METHODS = (
    Method("ULA", 0.0, 1),
    *(Method("SR-ULA", a, 3) for a in (1.0, 5.0)),
    *(Method("Stein self-repulsive", a, 1) for a in (1.0, 10.0)),
    *(Method("adaptive drift", a, 1) for a in (1.0, 10.0)),
)


def rivals(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Errors of the mean on the correlated Gaussian, at equal steps and at equal gradients."""
    full = size == "full"
    steps, replicates = (50_000, 100) if full else (700, 6)
    each = problem(("gaussian", "mala"), size)
    starts, key = each.starts(replicates, seed)
    score = jax.grad(each.target.logdensity_fn)
    found: dict[Method, Found] = {}
    for n, method in enumerate(METHODS):
        sampler = _sampler(method, each.target.logdensity_fn, score)
        found[method] = _measure(sampler, starts, key, steps)
        on_progress("rivals", n + 1, len(METHODS), method.name)
    at = _points(steps)
    numbers: dict[str, object] = {
        m.name: {
            "mse": [_numbers.mean(e) for e in f.errors.T],
            "variance": _numbers.mean(f.variance),
            "gradients per step": m.gradients,
        }
        for m, f in found.items()
    }
    settings: dict[str, object] = {
        "target": "Gaussian, d = 10, correlations 0.9^|i-j|",
        "step size": STEP_SIZE,
        "SR-ULA": "as printed, with the exact product and the gain (n + 1)^-0.6",
        "Stein self-repulsive": f"{MEMORY} past positions, one of every {EVERY} steps; Gaussian "
        "kernel with the width of the target, sqrt(d)",
        "adaptive drift": f"beta = {BETA:g}",
        "steps": steps,
        "burn-in": BURN_IN,
        "replicates": replicates,
    }
    limit = each.truth.variance
    rows = [_row(found, family, limit) for family in ("Stein self-repulsive", "adaptive drift")]
    return Outcome(settings, numbers, {"errors": _picture(found, at)}, rows)


def _points(steps: int) -> Int[np.ndarray, " point"]:
    """Steps since burn-in at which errors are taken."""
    block = round((1 - BURN_IN) * steps) // POINTS
    return block * np.arange(1, POINTS + 1)


def _sampler(
    method: Method, logdensity_fn: Callable[[Vector], Array], score: Callable[[Vector], Vector]
) -> Sampler:
    """The state that a sampler starts from, and its step."""
    alpha = method.strength

    def move(x: Vector, drift: Vector, key: PRNGKey) -> Vector:
        noise = jax.random.normal(key, x.shape)
        moved: Vector = x + STEP_SIZE * drift + jnp.sqrt(2 * STEP_SIZE) * noise
        return moved

    if method.family in ("ULA", "SR-ULA"):
        algorithm = srmc.ula(logdensity_fn, STEP_SIZE, **srmc.paper_settings(alpha))

        def repelled(state: object, n: Array, key: PRNGKey) -> tuple[object, Vector]:
            new, _ = algorithm.step(key, state)
            return new, new.position

        return algorithm.init, repelled
    if method.family == "adaptive drift":

        def drifted(state: tuple[Vector, Vector], n: Array, key: PRNGKey) -> tuple[object, Vector]:
            x, average = state
            s = score(x)
            x = move(x, s + alpha * average, key)
            return (x, BETA * average + (1 - BETA) * s), x

        return (lambda x: (x, jnp.zeros_like(x))), drifted

    def stein(state: tuple[Vector, Array, Array], n: Array, key: PRNGKey) -> tuple[object, Vector]:
        x, past, scores = state
        s = score(x)
        apart = x[None] - past
        kernel = jnp.exp(-jnp.sum(apart**2, axis=1) / (2 * x.size))[:, None]
        # grad_y of the kernel is K (x - y) / width^2
        pushes = kernel * (scores + apart / x.size)
        known = jnp.arange(MEMORY)[:, None] < n // EVERY
        push = jnp.sum(jnp.where(known, pushes, 0), axis=0) / MEMORY
        new = move(x, s + alpha * push, key)
        kept = (n % EVERY == 0) & (jnp.arange(MEMORY) == n // EVERY % MEMORY)[:, None]
        return (new, jnp.where(kept, x[None], past), jnp.where(kept, s[None], scores)), new

    empty = lambda x: jnp.zeros((MEMORY, x.size))
    return (lambda x: (x, empty(x), empty(x))), stein


def _measure(
    sampler: Sampler, starts: Float[Array, "replicate d"], key: PRNGKey, steps: int
) -> Found:
    init, step = sampler
    block = int(_points(steps)[0])
    first = steps - POINTS * block

    def chain(start: Vector, key: PRNGKey) -> tuple[Array, Array]:
        def one(carry: Carry, n: Array) -> tuple[Carry, None]:
            state, total, square = carry
            state, x = step(state, n, jax.random.fold_in(key, n))
            return (state, total + x, square + x**2), None

        def part(state: object, n: Array) -> tuple[object, tuple[Array, Array]]:
            zero = jnp.zeros_like(start)
            steps = first + n * block + jnp.arange(block)
            (state, total, square), _ = jax.lax.scan(one, (state, zero, zero), steps)
            return state, (total / block, square / block)

        zero = jnp.zeros_like(start)
        (state, _, _), _ = jax.lax.scan(one, (init(start), zero, zero), jnp.arange(first))
        kept: tuple[Array, Array] = jax.lax.scan(part, state, jnp.arange(POINTS))[1]
        return kept

    keys = jax.random.split(key, len(starts))
    means, squares = (np.asarray(x, float) for x in jax.jit(jax.vmap(chain))(starts, keys))
    return Found(_numbers.running_errors(means, np.zeros(10), 0.0), squares.mean(axis=(1, 2)))


def _best(found: dict[Method, Found], family: str) -> Method:
    """The strength with the lowest error of the mean."""
    mine = [m for m in found if m.family == family]
    return min(mine, key=lambda m: _numbers.mean_or_inf(found[m].errors[:, -1]))


def _at_equal_gradients(found: dict[Method, Found], method: Method) -> Float[np.ndarray, " run"]:
    """Errors when as many gradients were spent as by a whole run of one gradient per step."""
    errors: Float[np.ndarray, " run"] = found[method].errors[:, POINTS // method.gradients - 1]
    return errors


def _row(found: dict[Method, Found], family: str, limit: float) -> Row:
    plain, ours, rival = (_best(found, f) for f in ("ULA", "SR-ULA", family))
    ends = {m: found[m].errors[:, -1] for m in (plain, ours, rival)}
    spent = _at_equal_gradients(found, ours)
    ours_text = {f"MSE, {m.name}": _numbers.mean(e) for m, e in ends.items()}
    ours_text[f"MSE, {ours.name}, at the gradients of {rival.name}"] = _numbers.mean(spent)
    for m in (plain, ours, rival):
        ours_text[f"variance over that of the target, {m.name}"] = _numbers.mean(found[m].variance)
    off = {m: _numbers.mean(found[m].variance) for m in (plain, ours, rival)}
    return Row(
        "sec:exp_continuous",
        f"On the Gaussian SR-ULA has a smaller error of the mean than {_long(family)}, each with "
        "the better of two strengths (our claim)",
        NOT_IN_THE_PAPER,
        ours_text,
        {
            "SR-ULA is below the rival at equal steps, by two standard errors": _numbers.below(
                ends[ours], ends[rival], limit
            ),
            "SR-ULA is below the rival at equal gradients, by two standard errors": (
                _numbers.below(spent, ends[rival], limit)
            ),
            "the variance of SR-ULA is closer to that of the target": _apart(off[ours])
            < _apart(off[rival]),
        },
        f"The rival is {'' if _numbers.below(ends[rival], ends[plain], limit) else 'not '}below "
        "plain ULA by two standard errors.",
    )


def _long(family: str) -> str:
    return f"{family} dynamics" if family.startswith("Stein") else f"an {family}"


def _apart(variance: Estimate) -> float:
    return abs(variance.value - 1) if np.isfinite(variance.value) else np.inf


def _picture(found: dict[Method, Found], at: Int[np.ndarray, " point"]) -> Figure:
    figure = new_figure(9, 4)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, view in zip(axes, ("steps", "gradients"), strict=True):
        families = list(dict.fromkeys(m.family for m in found))
        for m, f in found.items():
            if not np.all(np.isfinite(f.errors)):
                continue
            x = at * (m.gradients if view == "gradients" else 1)
            mean, error = f.errors.mean(axis=0), f.errors.std(axis=0, ddof=1) / len(f.errors) ** 0.5
            style = "-" if m == _best(found, m.family) else "--"
            colour = ALPHA_COLOURS[families.index(m.family)]
            axis.errorbar(x, mean, 1.96 * error, color=colour, ls=style, capsize=2, label=m.name)
        axis.set(xscale="log", yscale="log", xlabel=f"{view} since burn-in")
    axes[0].set_ylabel("squared error of the mean")
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=4, fontsize=9,
                  loc="outside lower center")  # fmt: skip
    return figure
