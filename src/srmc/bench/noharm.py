"""Does repellence ever do harm? Errors against plain kernels at equal cost, on many targets."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import srmc
from srmc import _run, _tune
from srmc.targets import Target

TARGETS: dict[str, Callable[[], Target]] = {
    "gaussian-10": lambda: srmc.targets.gaussian(10),
    "gaussian-200": lambda: srmc.targets.gaussian(200),
    "ellipsoid-50": lambda: srmc.targets.ellipsoid(50, 1e4),
    "rotated-20": lambda: srmc.targets.ellipsoid(20, 100.0, rotate=True),
    "logistic": srmc.targets.logistic,
    "breast-cancer": srmc.targets.breast_cancer,
    "eight-schools": srmc.targets.eight_schools,
    "eight-schools-centred": lambda: srmc.targets.eight_schools(centred=True),
    "banana": srmc.targets.banana,
    "funnel": srmc.targets.funnel,
    "student-t": srmc.targets.student_t,
    "mixture": lambda: srmc.targets.mixture((0.7, 0.3), ((-1.5, 0.0), (1.5, 0.0)), (0.7, 0.7)),
    "cox-256": srmc.targets.cox,
}


class Case(NamedTuple):
    """A kernel of the study: its recipe, options, and lengths of warm-up and run."""

    kernel: str
    options: dict[str, Any]
    num_warmup: int
    num_samples: int


CASES = {
    "mh": Case("mh", {}, 5000, 20_000),
    "mala": Case("mala", {}, 5000, 20_000),
    "hmc": Case("hmc", {"num_integration_steps": 10}, 1000, 1000),
    "nuts": Case("nuts", {}, 1000, 1000),
}


def noharm(
    targets: list[str] | None = None,
    kernels: list[str] | None = None,
    *,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows for each kernel on each target; `quick` takes two of each, and short runs."""
    names = targets or (["logistic", "banana"] if quick else list(TARGETS))
    kernels = kernels or (["mala", "mh"] if quick else list(CASES))
    check_names = (("targets", names, TARGETS), ("kernels", kernels, CASES))
    for argument, given, known in check_names:
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"{argument} must be among {', '.join(known)}, got {unknown}")
    rows: list[dict[str, Any]] = []
    for kernel in kernels:
        for name in names:
            on_progress("noharm", len(rows), len(kernels) * len(names), f"{kernel} on {name}")
            case = CASES[kernel]
            if quick:
                case = case._replace(num_warmup=1000, num_samples=2000)
            row = study(TARGETS[name](), case, replicates=8 if quick else 48)
            rows.append(row | {"target": name})
    on_progress("noharm", len(rows), len(rows), "")
    return rows


class Errors(NamedTuple):
    """Squared errors of first and second moments, in units of the target's, a replicate each."""

    mean: jax.Array
    second: jax.Array
    gradients: jax.Array
    non_finite: jax.Array


def study(
    target: Target, case: Case, *, replicates: int = 48, chains: int = 1, alpha: Any = "auto"
) -> dict[str, Any]:
    """One row: plain and repelled errors over replicates, and what the loop measured."""
    flat, unravel = ravel_pytree(target.position)
    logdensity_fn = lambda x: target.logdensity_fn(unravel(x))
    moments = target.moments
    if moments is None:
        raise ValueError(f"target must have moments, got {target.name!r}, which has none")
    mean, variance = (
        jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]), flat.dtype)
        for tree in moments[:2]
    )

    def start(key):
        if target.sample is not None:
            return ravel_pytree(target.sample(key))[0].astype(flat.dtype)
        return mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape, flat.dtype)

    def replicate(key):
        start_key, warm_key, init_key, run_key = jax.random.split(key, 4)
        starts = jax.vmap(start)(jax.random.split(start_key, chains))
        warmup = _tune.adapt(
            case.kernel, logdensity_fn, warm_key, starts, case.num_warmup, **case.options
        )
        loop, options = _tune.tune(
            case.kernel, warmup, case.num_samples, alpha=alpha, shared=chains > 1
        )
        algorithm = _tune.RECIPES[case.kernel].build(logdensity_fn, **warmup.parameters, **options)
        init_keys = jax.random.split(init_key, chains)
        states = jax.vmap(algorithm.init)(warmup.positions, init_keys, loop.theta)
        on = _tune.is_worthwhile(loop) if alpha == "auto" else jnp.asarray(True)
        step_cost = _tune.RECIPES[case.kernel].step_gradients
        every = options.get("feedback_every", 1) * options["history_every"]
        affordable = jnp.floor(
            (case.num_samples - warmup.gradients / step_cost) / (1 + 1 / (step_cost * every))
        )
        affordable = jnp.where(on, affordable, case.num_samples)

        def one(carry, n):
            states, plain, repelled = carry
            keys = jax.random.split(jax.random.fold_in(run_key, n), chains)
            states, info = jax.vmap(algorithm.step, axis_name=_run.CHAINS)(keys, states)
            looked = (n % every == 0) if case.kernel != "mh" else (n + 1) % every == 0
            kernel_cost = info.gradients.mean() - looked + 0.5 * (case.kernel == "mh")
            plain = _add(plain, states.inner_state.position, mean, kernel_cost, info.is_finite)
            more = _add(repelled, states.position, mean, kernel_cost + on * looked, info.is_finite)
            repelled = jax.tree.map(lambda a, b: jnp.where(n < affordable, a, b), more, repelled)
            return (states, plain, repelled), None

        nothing = Errors(jnp.zeros_like(mean), jnp.zeros_like(mean), jnp.zeros(()), jnp.zeros(()))
        carry = (states, nothing, nothing)
        (_, plain, repelled), _ = jax.lax.scan(one, carry, jnp.arange(case.num_samples))
        return (
            _errors(plain, case.num_samples, variance),
            _errors(repelled, affordable, variance),
            on,
            loop.rate * case.num_samples,
            jnp.max(loop.time),
            loop.ratio,
        )

    keys = jax.random.split(jax.random.key(0), replicates)
    plain, repelled, on, windows, time, predicted = jax.jit(jax.vmap(replicate))(keys)
    row = {"target": target.name, "kernel": case.kernel, "chains": chains, "alpha": alpha}
    for name in ("mean", "second"):
        a, b = (np.asarray(getattr(side, name), float) for side in (plain, repelled))
        row[name] = {
            "plain": float(a.mean()),
            "repelled": float(b.mean()),
            "ratio": float(b.mean() / a.mean()),
            "error": _ratio_error(a, b),
        }
    return row | {
        "on": float(np.mean(on)),
        "gradients": [float(np.mean(side.gradients)) for side in (plain, repelled)],
        "non_finite_results": int(np.sum(~np.isfinite(np.asarray(repelled.mean)))),
        "steps_refused": float(np.mean(repelled.non_finite)),
        "windows": float(np.median(windows)),
        "time": float(np.median(time)),
        "predicted": float(np.median(predicted)),
    }


def _add(sums: Errors, positions, mean, cost, is_finite) -> Errors:
    centred = positions - mean[None]
    return Errors(
        sums.mean + jnp.mean(centred, axis=0),
        sums.second + jnp.mean(centred**2, axis=0),
        sums.gradients + cost,
        sums.non_finite + jnp.mean(~is_finite),
    )


def _errors(sums: Errors, count, variance) -> Errors:
    return Errors(
        jnp.mean((sums.mean / count) ** 2 / variance),
        jnp.mean((sums.second / count / variance - 1) ** 2),
        sums.gradients,
        sums.non_finite,
    )


def _ratio_error(plain: np.ndarray, repelled: np.ndarray) -> float:
    """The standard error of mean(repelled) / mean(plain), by the jackknife over replicates."""
    n = len(plain)
    left_out = (repelled.sum() - repelled) / (plain.sum() - plain)
    return float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
