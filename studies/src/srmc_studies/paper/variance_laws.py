"""The limit theorem and its corollaries, predicted and simulated (sec:theory)."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import srmc
from srmc import theory
from srmc.repel import RepelState
from srmc.types import Array, Float, PRNGKey
from srmc_studies.paper import _variance_rows
from srmc_studies.paper._chains import Number
from srmc_studies.paper._ledger import Estimate, Outcome
from srmc_studies.paper._progress import Progress, silent
from srmc_studies.paper._style import new_figure
from srmc_studies.paper._variance_rows import ALPHAS, ChainCovariance, MeanVariance, Norm

COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])
STEP_SIZE = 0.06
DELAY = 50.0  # makes the first gains stable, and does not change the limit

_Simulator: TypeAlias = Callable[[PRNGKey, Number], Float[Array, " 2"]]


def variance_laws(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Compare covariances of history and estimates with the theory, over alpha."""
    replicates, steps = (4096, 20_000) if size == "full" else (256, 1500)
    on_progress("variance-laws", 0, 4, "finite chain")
    chain = _finite_chain(seed, replicates, steps)
    found: dict[tuple[str, float], list[MeanVariance]] = {}
    for n, (kernel, rho) in enumerate((("independent", 1.0), ("mala", 1.0), ("independent", 0.8))):
        on_progress("variance-laws", 1 + n, 4, f"Gaussian, {kernel}, rho = {rho:g}")
        found[kernel, rho] = _gaussian(kernel, rho, seed, replicates // 4, steps)
    on_progress("variance-laws", 4, 4, "")
    settings: dict[str, object] = {
        "finite chain": "12 states, 3 features with mean 0, 2 functions, Metropolis, rho = 1",
        "Gaussian": "d = 2; independent draws from the surrogate, and MALA with step size 0.06",
        "alpha": ALPHAS,
        "gain": f"(n + {DELAY:g})^-rho on the Gaussian",
        "steps": f"{steps:,}",
        "replicates": f"{replicates} of the finite chain, {replicates // 4} on the Gaussian",
    }
    numbers: dict[str, object] = {
        "finite chain": [
            {"alpha": c.alpha, "distance": [c.distance, c.noise], **c.norms} for c in chain
        ],
        "gaussian": {
            f"{kernel}, rho = {rho:g}": [v._asdict() for v in each]
            for (kernel, rho), each in found.items()
        },
    }
    figures = {"laws": _picture(chain, found)}
    return Outcome(settings, numbers, figures, _variance_rows.rows(chain, found))


def random_tables(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A random target on 12 states, a proposal, a 3-dimensional feature, and two functions."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(12, 3.0))
    proposal = rng.uniform(0.2, 1.0, (12, 12))
    proposal /= proposal.sum(axis=1, keepdims=True)
    features = rng.uniform(-1.5, 1.5, (12, 3))
    features -= pi @ features
    values = features @ rng.normal(size=(3, 2)) + rng.uniform(-1.5, 1.5, (12, 2))
    return pi, proposal, features, values


def _finite_chain(seed: int, replicates: int, steps: int) -> list[ChainCovariance]:
    """Simulate the finite chain, and compare its covariance with the Lyapunov equation."""
    tables = random_tables(seed)
    pi, proposal, features, values = tables
    case = theory.finite(theory.metropolis(pi, proposal), pi, features, values)
    out = []
    for alpha in ALPHAS:
        run = theory.simulate(
            jax.random.key(seed),
            *tables,
            alpha=alpha,
            gain=srmc.gain(1.0),
            num_steps=steps,
            num_replicates=replicates,
        )
        draws = np.concatenate([run.theta, run.mean], axis=1)
        exact = theory.asymptotic_covariance(*case, alpha=alpha, rho=1.0)
        found = np.cov(draws, rowvar=False)
        blocks = zip(theory.blocks(exact, 3), theory.blocks(found, 3), strict=True)
        norms = [Norm(*(float(np.linalg.norm(x)) for x in pair)) for pair in blocks]
        size = np.linalg.norm(exact)
        out.append(
            ChainCovariance(
                alpha,
                float(np.linalg.norm(found - exact) / size),
                float(_covariance_error(draws) / size),
                dict(zip(theory.Blocks._fields, norms, strict=True)),
            )
        )
    return out


def _covariance_error(draws: Float[np.ndarray, "replicate d"]) -> float:
    """The standard error of a sample covariance, in the Frobenius norm."""
    centred = draws - draws.mean(axis=0)
    products = centred[:, :, None] * centred[:, None]
    return float(np.sqrt(np.sum(products.var(axis=0)) / len(draws)))


def _gaussian(
    kernel: str, rho: float, seed: int, replicates: int, steps: int
) -> list[MeanVariance]:
    """Simulate the sample mean on the Gaussian, and compare its variance with the theory."""
    simulator = {"mala": _mala, "independent": _independent}[kernel](rho, steps)
    keys = jax.random.split(jax.random.key(seed), replicates)
    over_both = jax.vmap(jax.vmap(simulator, (0, None)), (None, 0))
    sums = np.asarray(jax.jit(over_both)(keys, jnp.asarray(ALPHAS)), float)
    case = theory.gaussian(COVARIANCE, kernel, step_size=STEP_SIZE)
    out = []
    for alpha, total in zip(ALPHAS, sums, strict=True):
        each = np.sum((total / steps) ** 2, axis=1) * steps
        if rho == 1:
            exact = theory.gaussian_mean_covariance(COVARIANCE, case.noise[2:, 2:], alpha)
        else:
            exact = theory.average_covariance(*case, alpha=alpha)
        estimate = Estimate(float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5))
        out.append(MeanVariance(alpha, float(np.trace(exact)), estimate))
    return out


def _factors() -> tuple[Float[Array, "2 2"], Float[Array, "2 2"]]:
    """The Cholesky factor of the covariance, and the precision."""
    root = np.linalg.cholesky(COVARIANCE)
    return jnp.asarray(root), jnp.asarray(np.linalg.inv(COVARIANCE))


def _mala(rho: float, steps: int) -> _Simulator:
    """The sum of the draws of repelled MALA."""
    root, precision = _factors()
    gain = srmc.gain(rho, delay=DELAY)

    def simulate(key: PRNGKey, alpha: Number) -> Float[Array, " 2"]:
        options = srmc.paper_settings(srmc.fixed(alpha)) | {"gain": gain}
        algorithm = srmc.mala(lambda x: -0.5 * x @ precision @ x, STEP_SIZE, **options)
        start_key, key = jax.random.split(key)

        def step(
            n: int, carry: tuple[RepelState, Float[Array, " 2"]]
        ) -> tuple[RepelState, Float[Array, " 2"]]:
            state, total = carry
            state, _ = algorithm.step(jax.random.fold_in(key, n), state)
            return state, total + state.position

        start = algorithm.init(root @ jax.random.normal(start_key, (2,)))
        _, total = jax.lax.fori_loop(0, steps, step, (start, jnp.zeros(2)))
        return jnp.asarray(total)

    return simulate


def _independent(rho: float, steps: int) -> _Simulator:
    """The sum of independent draws from the tilted Gaussian, which is a shifted one."""
    root, precision = _factors()
    gain = srmc.gain(rho, delay=DELAY)

    def simulate(key: PRNGKey, alpha: Number) -> Float[Array, " 2"]:
        def step(
            n: int, carry: tuple[Float[Array, " 2"], Float[Array, " 2"]]
        ) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
            theta, total = carry
            x = root @ jax.random.normal(jax.random.fold_in(key, n), (2,)) + alpha * theta
            return theta + gain(n + 1) * (-precision @ x - theta), total + x

        _, total = jax.lax.fori_loop(0, steps, step, (jnp.zeros(2), jnp.zeros(2)))
        return jnp.asarray(total)

    return simulate


def _picture(
    chain: Sequence[ChainCovariance], found: dict[tuple[str, float], list[MeanVariance]]
) -> Figure:
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    x = 1 + np.array(ALPHAS)
    names = {"theta": "history", "cross": "cross", "mean": "estimate"}
    for colour, (name, label) in zip(("C0", "C1", "C2"), names.items(), strict=True):
        left.plot(
            x, [c.norms[name].predicted for c in chain], color=colour, label=f"{label}, predicted"
        )
        left.plot(x, [c.norms[name].simulated for c in chain], "o", color=colour)
    left.set(title="Finite chain, ρ = 1", ylabel="norm of the covariance block")
    for colour, ((kernel, rho), each) in zip(("C0", "C1", "C2"), found.items(), strict=True):
        label = f"{kernel if kernel != 'mala' else 'MALA'}, ρ = {rho:g}"
        _draw_variances(right, each, colour, label)
    right.set(title="Gaussian, sample mean", ylabel="variance relative to α = 0")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="1 + α")
        axis.legend(fontsize=9)
    return figure


def _draw_variances(axis: Axes, found: Sequence[MeanVariance], colour: str, label: str) -> None:
    x = 1 + np.array(ALPHAS)
    unit = found[0].predicted
    axis.plot(x, [v.predicted / unit for v in found], color=colour, label=label)
    middle = np.array([v.simulated.value for v in found]) / unit
    bars = 1.96 * np.array([v.simulated.error for v in found]) / unit
    axis.errorbar(x, middle, bars, fmt="o", color=colour, capsize=3)
