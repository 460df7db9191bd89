"""A Boltzmann machine of real digits, whose means block Gibbs sampling gives."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from matplotlib.figure import Figure

import srmc
from srmc.types import Array, Float, PRNGKey, Scalar
from srmc_studies.paper import _numbers
from srmc_studies.paper._chains import Plan
from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Estimate, Outcome, Row
from srmc_studies.paper._mixing_plots import show_grid
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper._style import new_figure
from srmc_studies.paper.ebm.sampling import Path, follow

HIDDEN = 32
STEP_SIZE = 0.2
GAIN = srmc.gain(0.6, scale=0.1)


class Size(NamedTuple):
    """Chains, steps, sweeps of block Gibbs per chain, and steps between records."""

    chains: int
    steps: int
    sweeps: int
    every: int


SIZES = {"full": Size(100, 20_000, 10_000, 20), "quick": Size(16, 400, 400, 20)}


class Machine(NamedTuple):
    """A Boltzmann machine with weights (hidden, visible)."""

    weights: Float[np.ndarray, "hidden visible"]
    visible: Float[np.ndarray, " visible"]
    hidden: Float[np.ndarray, " hidden"]


def fitted(seed: int) -> tuple[Machine, Float[np.ndarray, "image visible"]]:
    """The machine that scikit-learn fits to its digits of 8 x 8 pixels, and those digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import BernoulliRBM

    x = (load_digits().data >= 8).astype(np.float32)
    fit = BernoulliRBM(HIDDEN, learning_rate=0.05, n_iter=20, random_state=seed).fit(x)
    return Machine(fit.components_, fit.intercept_visible_, fit.intercept_hidden_), x


def block_gibbs(
    machine: Machine, x: Float[Array, "chain visible"], rng_key: PRNGKey, sweeps: int
) -> Float[np.ndarray, "chain visible"]:
    """The mean of E[v | h] over the sweeps of each chain, without the first tenth."""
    w, b, c = (jnp.asarray(a, jnp.float32) for a in machine)

    def sweep(carry: tuple[Array, Array], n: Array) -> tuple[tuple[Array, Array], None]:
        v, total = carry
        up, down = jax.random.split(jax.random.fold_in(rng_key, n))
        h = jax.random.bernoulli(up, jax.nn.sigmoid(v @ w.T + c[None])).astype(v.dtype)
        p = jax.nn.sigmoid(h @ w + b[None])
        v = jax.random.bernoulli(down, p).astype(v.dtype)
        return (v, total + jnp.where(n >= sweeps // 10, p, 0.0)), None

    run = jax.jit(lambda x: jax.lax.scan(sweep, (x, jnp.zeros_like(x)), jnp.arange(sweeps))[0][1])
    return np.asarray(run(x)) / (sweeps - sweeps // 10)


def samplers(target: srmc.targets.Target) -> dict[str, Callable[[Scalar], SamplingAlgorithm]]:
    """Plain samplers, those as printed, and those repelled by the Gibbs residual."""
    f, space = target.logdensity_fn, target.space
    assert space is not None
    printed: Callable[[float], dict[str, Any]] = lambda a: (
        srmc.paper_settings(a, discrete=True) | {"gain": GAIN}
    )
    ours: dict[str, Any] = {
        "alpha": 10.0,
        "gain": GAIN,
        "feature": "gibbs",
        "bend": "feature",
        "differences": target.differences,
        "history_average": False,
    }
    return {
        "GWG": lambda a: srmc.gwg(f, space, **printed(0.0)),
        "SR-GWG as printed": lambda a: srmc.gwg(f, space, **printed(1e-3)),
        "GWG, Gibbs residual": lambda a: srmc.gwg(f, space, **ours),
        "DLP": lambda a: srmc.dlp(f, space, STEP_SIZE, **printed(0.0)),
        "SR-DLP as printed": lambda a: srmc.dlp(f, space, STEP_SIZE, **printed(1e-3)),
        "DLP, Gibbs residual": lambda a: srmc.dlp(f, space, STEP_SIZE, **ours),
    }


def rbm(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Compare the means of all samplers with those of block Gibbs sampling."""
    s = SIZES[size]
    machine, digits = fitted(seed)
    target = srmc.targets.rbm(machine.weights, machine.visible, machine.hidden)
    picks = np.random.default_rng(seed).integers(len(digits), size=s.chains)
    starts, key = digits[picks], jax.random.key(seed)
    truth = block_gibbs(machine, jnp.asarray(starts), key, s.sweeps)
    builders = samplers(target)
    records = s.steps // s.every
    paths: dict[str, Path] = {}
    for n, (name, build) in enumerate(builders.items()):
        tell = counter(on_progress, "rbm", len(builders) * records, done=n * records, remark=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the relaxed score is biased is the point
            plan = Plan(records, s.every, size == "quick", tell)
            (paths[name],) = follow(build, [0.0], starts, key, plan)
    means = {name: _means(path) for name, path in paths.items()}
    errors = {name: _errors(x, truth.mean(axis=0)) for name, x in means.items()}
    spread = _spread(truth)
    rows = [*_rows(means, truth), *_gain_rows(errors, paths)]
    numbers: dict[str, object] = {
        name: {
            "squared error of one chain": _numbers.mean(errors[name]),
            "acceptance": paths[name].acceptance,
            "gradients per step": paths[name].gradients[-1] / paths[name].steps[-1],
            "processor seconds per step": paths[name].seconds,
        }
        for name in paths
    } | {"standard error of the reference": spread}
    settings: dict[str, object] = {
        "target": f"scikit-learn's BernoulliRBM with {HIDDEN} hidden units, fitted to its digits",
        "reference": f"block Gibbs, {s.chains} chains of {s.sweeps:,} sweeps from digits",
        "chains": f"{s.chains} of {s.steps:,} steps from digits, without the first tenth",
        "alpha": "0.001 as printed, 10 with the Gibbs residual",
        "gain": "0.1 (n + 1)^-0.6",
        "step size of DLP": STEP_SIZE,
    }
    return Outcome(settings, numbers, {"means": _picture(means, truth, digits)}, rows)


def _means(path: Path) -> Float[np.ndarray, "chain visible"]:
    """The mean of each chain, without the first tenth."""
    x = path.states[len(path.states) // 10 :]
    return np.asarray(x.mean(axis=0))


def _spread(x: Float[np.ndarray, "chain visible"]) -> float:
    """The standard error of the mean over chains, averaged over pixels."""
    return float(np.sqrt(np.mean(x.var(axis=0, ddof=1) / len(x))))


def _errors(
    x: Float[np.ndarray, "chain visible"], truth: Float[np.ndarray, " visible"]
) -> Float[np.ndarray, " chain"]:
    errors: Float[np.ndarray, " chain"] = np.mean((x - truth) ** 2, axis=1)
    return errors


def _z(x: Float[np.ndarray, "chain visible"], truth: Float[np.ndarray, "chain visible"]) -> float:
    """The root mean square difference of means over that of its standard error: 1 by chance.

    Squares are summed over pixels first, since some pixels hardly ever change.
    """
    gap = x.mean(axis=0) - truth.mean(axis=0)
    return float(np.sqrt(np.mean(gap**2)) / np.hypot(_spread(x), _spread(truth)))


def _distance(
    x: Float[np.ndarray, "chain visible"], truth: Float[np.ndarray, "chain visible"]
) -> Estimate:
    """The same with its error over chains."""
    return _numbers.jackknife(lambda keep: _z(x[keep], truth), len(x))


def _rows(
    means: dict[str, Float[np.ndarray, "chain visible"]], truth: Float[np.ndarray, "chain visible"]
) -> list[Row]:
    """One row for the samplers whose feature has mean 0, one for those as printed."""
    claims = {
        False: "GWG, DLP and their forms with the Gibbs residual reach the means of a Boltzmann "
        "machine of digits",
        True: "SR-GWG and SR-DLP as printed reach the means of a Boltzmann machine of digits",
    }
    z = {name: _z(x, truth) for name, x in means.items()}
    return [
        Row(
            "alg:sr_discrete, sec:exp_discrete",
            claim,
            NOT_IN_THE_PAPER,
            {
                f"difference in standard errors, {name}": _distance(means[name], truth)
                for name in z
                if ("printed" in name) == printed
            },
            {f"{name}: at most 2": z[name] <= 2 for name in z if ("printed" in name) == printed},
            "The reference is block Gibbs sampling, which shares nothing with these samplers. A "
            "root mean square near 1 is what chance gives."
            + (" The relaxed gradient does not have mean 0." if printed else ""),
        )
        for printed, claim in claims.items()
    ]


def _gain_rows(errors: dict[str, Float[np.ndarray, " chain"]], paths: dict[str, Path]) -> list[Row]:
    forms = {
        "as printed": {"SR-GWG as printed": "GWG", "SR-DLP as printed": "DLP"},
        "with the Gibbs residual": {"GWG, Gibbs residual": "GWG", "DLP, Gibbs residual": "DLP"},
    }
    cost = {n: p.gradients[-1] / p.steps[-1] for n, p in paths.items()}
    rows = []
    for form, pairs in forms.items():
        ratio = {name: _numbers.ratio(errors[name], errors[base]) for name, base in pairs.items()}
        rows.append(
            Row(
                "alg:sr_discrete, sec:exp_discrete",
                f"Repelled forms {form} have a smaller squared error of the means per step than "
                "the plain sampler",
                NOT_IN_THE_PAPER,
                {f"squared error, ratio to plain, {name}": e for name, e in ratio.items()},
                {
                    f"{name}: below 1, by two standard errors": e.value + 2 * e.error < 1
                    for name, e in ratio.items()
                },
                "Evaluations per step: "
                + ", ".join(f"{name} {c:.2g}" for name, c in cost.items())
                + "; exact ratios count as one, as their supplier has them at the cost of a few "
                "gradients.",
            )
        )
    return rows


def _picture(
    means: dict[str, Float[np.ndarray, "chain visible"]],
    truth: Float[np.ndarray, "chain visible"],
    digits: Float[np.ndarray, "image visible"],
) -> Figure:
    figure = new_figure(11, 4)
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    show_grid(left, np.stack([digits[:4], *(m[:4] for m in list(means.values())[:1]), truth[:4]]))
    left.set_yticks(4 + 8 * np.arange(3), ["digits", "GWG", "block Gibbs"], fontsize=8)
    left.set(title="digits, and means of four chains")
    for n, (name, x) in enumerate(means.items()):
        gap = x.mean(axis=0) - truth.mean(axis=0)
        right.plot(np.sort(gap), color=f"C{n}", lw=1.2, label=name)
    error = 2 * np.sqrt(2) * _spread(truth)
    right.axhspan(-error, error, color="0.9", zorder=0)
    right.set(xlabel="pixel, sorted", ylabel="mean minus that of block Gibbs")
    right.legend(fontsize=8)
    return figure
