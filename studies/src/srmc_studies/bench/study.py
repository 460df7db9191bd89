"""Replicates of a kernel on a target: errors of the plain chain and of its rivals."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import srmc
from srmc.repel import RepelState
from srmc.sample import CHAINS, in_order, run
from srmc.sample.tune import Continuous, Tuned, tune
from srmc.targets import Target
from srmc.types import Array, Float, LogDensity, PRNGKey
from srmc_studies.bench.errors import Errors, Truth, control_variate_errors, errors_of, ratio_error

Alpha = float | str | list[float]


class Case(NamedTuple):
    """A kernel of a study, and the lengths of its warm-up and run."""

    kernel: str
    num_warmup: int
    num_samples: int


class Flat(NamedTuple):
    """A target on vectors, with its mean, its variance and a function that draws starts."""

    logdensity_fn: LogDensity
    mean: Float[Array, " d"]
    variance: Float[Array, " d"]
    start: Callable[[PRNGKey], Float[Array, " d"]]


def flatten(target: Target) -> Flat:
    """The target on vectors; chains start from exact draws where possible, else from a Gaussian."""
    flat, unravel = ravel_pytree(target.position)
    if target.moments is None:
        raise ValueError(f"target must have moments, got {target.name!r}, which has none")
    mean, variance = (
        jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]), flat.dtype)
        for tree in target.moments[:2]
    )

    def start(key: PRNGKey) -> Float[Array, " d"]:
        if target.sample is not None:
            drawn: Array = ravel_pytree(target.sample(key))[0].astype(mean.dtype)
            return drawn
        return mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape, mean.dtype)

    return Flat(lambda x: target.logdensity_fn(unravel(x)), mean, variance, start)


class Ran(NamedTuple):
    """A run: draws, base draws and scores, the cost per step, and fractions of special steps."""

    draws: Float[Array, "draw chain d"]
    base: Float[Array, "draw chain d"]
    scores: Float[Array, "draw chain d"]
    cost: Float[Array, " draw"]
    refused: Float[Array, ""]
    hot: Float[Array, ""]


class Replicate(NamedTuple):
    """What one replicate runs: a target, a case, and a number of chains that share a history."""

    flat: Flat
    case: Case
    num_chains: int

    def tune(self, key: PRNGKey, alpha: Any) -> tuple[Continuous, Tuned, PRNGKey]:
        """Tune the chains as `srmc.sample` does; return the tuner, the tuned chains and a key."""
        start_key, warm_key, run_key = jax.random.split(key, 3)
        starts = jax.vmap(self.flat.start)(jax.random.split(start_key, self.num_chains))
        tuner = Continuous(self.case.kernel)
        tuned = tune(
            tuner,
            self.flat.logdensity_fn,
            warm_key,
            starts,
            num_warmup=self.case.num_warmup,
            num_samples=self.case.num_samples,
            alpha=alpha,
            together=self.num_chains,
        )
        return tuner, tuned, run_key

    def run(
        self, tuner: Continuous, tuned: Tuned, rng_key: PRNGKey, options: dict[str, Any]
    ) -> Ran:
        """Run the tuned chains, repelled as the options say."""
        algorithm = tuner.build(self.flat.logdensity_fn, tuned.parameters, **options)
        init_key, run_key = jax.random.split(rng_key)
        init_keys = jax.random.split(init_key, self.num_chains)
        states = jax.vmap(algorithm.init)(tuned.positions, init_keys)

        def record(state: RepelState) -> tuple[Array, Array, Array]:
            base = state.inner_state.position
            return state.position, base, getattr(state.inner_state, "logdensity_grad", base)

        _, (draws, base, scores), stats = run(
            algorithm, run_key, states, self.case.num_samples, record=record
        )
        cost = jnp.mean(stats.gradients + stats.hvps, axis=1)
        if self.case.kernel == "mh":
            cost = cost + 0.5  # a density counts as half a gradient
        return Ran(draws, base, scores, cost, jnp.mean(~stats.is_finite), jnp.mean(stats.is_hot))

    def options(self, tuner: Continuous, tuned: Tuned, alpha: Any) -> dict[str, Any]:
        """The keywords of `repel` that `srmc.sample` would use."""
        axis = CHAINS if self.num_chains > 1 else None
        found = tuner.repellence(tuned.loop, self.case.num_samples, alpha)
        return found | {"history_axis": axis}


def find_truth(target: Target, chains: int = 64, length: int = 4000, seed: int = 99) -> Truth:
    """The truth that errors refer to, from exact draws or from a long run of plain NUTS."""
    flat = flatten(target)
    key, dim = jax.random.key(seed), flat.mean.size
    sample = target.sample
    if sample is not None:
        size = min(chains * length, 2**25 // dim)
        draws = jax.jit(jax.vmap(lambda k: ravel_pytree(sample(k))[0]))(jax.random.split(key, size))
    else:
        replicate = Replicate(flat, Case("nuts", 1000, length), chains)
        plain = lambda key: replicate.run(*replicate.tune(key, 0.0), {"alpha": 0.0}).draws
        draws = jax.jit(plain, compiler_options=in_order())(key).reshape(-1, dim)
    return Truth.of(draws, flat.mean, flat.variance)


def study(
    target: Target,
    case: Case,
    *,
    replicates: int = 48,
    num_chains: int = 1,
    alpha: Alpha = "auto",
    truth: Truth | None = None,
    beside: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """Squared errors over replicates, each at the cost of the plain run, and what was measured.

    The replicates take the alphas of a sequence in turn. With `truth`, the errors of covariances,
    quantiles and tails are included. With `beside`, errors are also computed for the paper's
    settings and for control variates on the plain draws; with both, also for the shift alone.
    """
    flat = flatten(target)
    known = truth or Truth(flat.mean, flat.variance)
    replicate = Replicate(flat, case, num_chains)
    dealt = None if isinstance(alpha, str) else jnp.resize(jnp.asarray(alpha, float), (replicates,))
    orders = () if not beside else (1,) if truth is None else (1, 2)
    keys = jax.random.split(jax.random.key(seed), replicates)
    batch = _batch_size(replicates, num_chains * case.num_samples * flat.mean.size)

    def over_replicates(column: Callable[[Any], Any], inputs: Any) -> Any:
        program = lambda x: jax.lax.map(column, x, batch_size=batch)
        return jax.jit(program, compiler_options=in_order())(inputs)

    def repelled(inputs: Any) -> Any:
        key, strength = inputs if dealt is not None else (inputs, alpha)
        return _repelled(replicate, key, strength, known, orders)

    errors, measured, cost = over_replicates(repelled, keys if dealt is None else (keys, dealt))
    if beside:
        paper = lambda pair: _at_cost(replicate, pair[0], pair[1], known, "paper", alpha)
        errors["paper"] = over_replicates(paper, (keys, cost))
    if beside and truth is not None:
        shifted = lambda pair: _at_cost(replicate, pair[0], pair[1], known, "shift", alpha)
        errors["shift"] = over_replicates(shifted, (keys, cost))
    asked = {
        "kernel": case.kernel,
        "chains": num_chains,
        "alpha": alpha,
        "seed": seed,
        "dtype": str(flat.mean.dtype),
        "replicates": replicates,
    }
    errors = jax.tree.map(lambda x: np.asarray(x, float), errors)
    return asked | _row(errors, measured, np.asarray(cost, float))


def _batch_size(replicates: int, numbers: int) -> int:
    """The number of replicates that run at once: a divisor of all, within about 2 GB of memory."""
    affordable = np.clip(2e9 // (64 * numbers), 1, replicates)
    return max(n for n in range(1, replicates + 1) if replicates % n == 0 and n <= affordable)


def _repelled(
    replicate: Replicate, key: PRNGKey, alpha: Any, truth: Truth, orders: tuple[int, ...]
) -> tuple[dict[str, Errors], dict[str, Array], Array]:
    """Errors of the plain and the repelled chain, what was measured, and the plain run's cost."""
    case = replicate.case
    tuner, tuned, run_key = replicate.tune(key, alpha)
    options = replicate.options(tuner, tuned, alpha)
    ran = replicate.run(tuner, tuned, run_key, options)
    every = options["history_every"] * options.get("feedback_every", 1)
    plain_cost = jnp.sum(ran.cost) - case.num_samples // every
    everywhere = jnp.ones(case.num_samples, bool)
    on = tuner.is_on(tuned.loop)  # if not, the plain kernel runs alone, at its own cost
    affordable = tuned.extra_gradients + jnp.cumsum(ran.cost) <= plain_cost
    errors = {
        "plain": errors_of(ran.base, everywhere, truth),
        "repelled": errors_of(ran.draws, jnp.where(on, affordable, everywhere), truth),
    }
    scores = ran.scores
    if orders and case.kernel == "mh":
        scores = jax.vmap(jax.vmap(jax.grad(replicate.flat.logdensity_fn)))(ran.base)
    for order in orders:
        errors[f"zv{order}"] = control_variate_errors(ran.base, scores, order, truth)
    loop = tuned.loop
    measured = {
        "rate": loop.rate,
        "time": jnp.max(loop.time),
        "explained": jnp.mean(loop.explained),
        "explained_squares": jnp.mean(loop.explained_squares),
        "explained_products": loop.explained_products,
        "on": on.astype(float),
        "extra_cost": jnp.sum(ran.cost) / plain_cost - 1,
        "refused": ran.refused,
        "hot": ran.hot,
    }
    return errors, measured, plain_cost


def _at_cost(
    replicate: Replicate, key: PRNGKey, cost: Array, truth: Truth, side: str, alpha: Any
) -> Errors:
    """Errors with the paper's settings, or with shifts alone, at the cost of the plain run."""
    tuner, tuned, run_key = replicate.tune(key, alpha)
    extra: Any = 0
    if side == "paper":
        options = srmc.paper_settings()
    else:
        tuner, extra = Continuous(tuner.kernel, form="shift"), tuned.extra_gradients
        options = replicate.options(tuner, tuned, alpha)
    ran = replicate.run(tuner, tuned, run_key, options)
    return errors_of(ran.draws, extra + jnp.cumsum(ran.cost) <= cost, truth)


def _row(
    errors: dict[str, dict[str, np.ndarray]], measured: dict[str, Array], cost: np.ndarray
) -> dict[str, Any]:
    def against_plain(name: str, e: np.ndarray) -> dict[str, float]:
        plain = errors["plain"][name]
        return {
            "squared_error": float(np.mean(e)),
            "ratio": float(np.mean(e) / np.mean(plain)),
            "error": ratio_error(plain, e),
            "median_ratio": float(np.median(e) / np.median(plain)),
        }

    broken = sum(np.sum(~np.isfinite(e)) for e in errors["repelled"].values())
    return {
        "gradients_per_chain": float(np.mean(cost)),
        "non_finite_results": int(broken),
        "measured": {name: float(np.mean(x)) for name, x in measured.items()},
        "errors": {
            side: {name: against_plain(name, e) for name, e in by_name.items()}
            for side, by_name in errors.items()
        },
    }
