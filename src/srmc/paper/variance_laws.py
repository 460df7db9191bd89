"""The limit theorem and its corollaries, predicted and simulated (sec:theory)."""

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc import theory
from srmc.paper._ledger import Estimate, Outcome, Progress, Row
from srmc.paper._style import new_figure

ALPHAS = (0.0, 1.0, 4.0, 16.0)
COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])
STEP_SIZE = 0.06
DELAY = 50.0  # so that the first gains are stable; it does not change the limit


def variance_laws(
    size: str = "full", seed: int = 0, on_progress: Progress = lambda *args: None
) -> Outcome:
    """Covariances of history and estimates against alpha: finite chain, Gaussian, budgets."""
    full = size == "full"
    replicates, steps = (4096, 20_000) if full else (256, 1500)
    tell = lambda n, what: on_progress("variance-laws", n, 4, what)
    tell(0, "finite chain")
    chain = _finite_chain(seed, replicates, steps)
    found = {}
    for n, (kernel, rho) in enumerate((("independent", 1.0), ("mala", 1.0), ("independent", 0.8))):
        tell(1 + n, f"Gaussian, {kernel}, rho = {rho:g}")
        found[kernel, rho] = _gaussian(kernel, rho, seed, replicates // 4, steps)
    tell(4, "")
    rows = [
        _order_row(chain),
        _blocks_row(chain),
        _independent_row(found["independent", 1.0]),
        _gaussian_row(found["mala", 1.0]),
        _budget_row(found["mala", 1.0]),
        _averages_row(found["independent", 0.8]),
    ]
    settings = {
        "finite chain": "12 states, 3 features with mean 0, 2 functions, Metropolis, rho = 1",
        "Gaussian": "d = 2; independent draws of the bent target, and MALA with step size 0.06",
        "alpha": ALPHAS,
        "gain": f"(n + {DELAY:g})^-rho on the Gaussian",
        "steps": f"{steps:,}",
        "replicates": f"{replicates}, and {replicates // 4} on the Gaussian",
    }
    numbers = {
        "finite chain": chain,
        "gaussian": {f"{kernel}, rho = {rho:g}": x for (kernel, rho), x in found.items()},
    }
    return Outcome(settings, numbers, {"laws": _picture(chain, found)}, rows)


def random_tables(seed: int) -> tuple[np.ndarray, ...]:
    """A random target on 12 states, a proposal, a 3-dimensional feature, and two functions."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(12, 3.0))
    proposal = rng.uniform(0.2, 1.0, (12, 12))
    proposal /= proposal.sum(axis=1, keepdims=True)
    features = rng.uniform(-1.5, 1.5, (12, 3))
    features -= pi @ features
    values = features @ rng.normal(size=(3, 2)) + rng.uniform(-1.5, 1.5, (12, 2))
    return pi, proposal, features, values


def _finite_chain(seed, replicates, steps):
    """Norms of the blocks of the covariance, predicted, simulated, and their relative distance."""
    tables = random_tables(seed)
    pi, proposal, features, values = tables
    case = theory.finite(theory.metropolis(pi, proposal), pi, features, values)
    rows = []
    for alpha in ALPHAS:
        run = theory.simulate(
            jax.random.key(seed),
            *tables,
            alpha=alpha,
            gain=srmc.gain(1.0),
            num_steps=steps,
            num_replicates=replicates,
        )
        both = np.concatenate([run.theta, run.mean], axis=1)
        exact = theory.asymptotic_covariance(*case, alpha=alpha, rho=1.0)
        found = np.cov(both, rowvar=False)
        parts = zip(
            theory.Blocks._fields, theory.blocks(exact, 3), theory.blocks(found, 3), strict=True
        )
        rows.append(
            {"alpha": alpha, "distance": _distance(both, exact)}
            | {name: [np.linalg.norm(a), np.linalg.norm(b)] for name, a, b in parts}
        )
    return rows


def _distance(draws, exact):
    """Of a simulated covariance to the exact one, in norm, relatively, and what noise explains."""
    centred = draws - draws.mean(axis=0)
    products = centred[:, :, None] * centred[:, None]
    noise = np.sqrt(np.sum(products.var(axis=0)) / len(draws))
    size = np.linalg.norm(exact)
    return [np.linalg.norm(np.cov(draws, rowvar=False) - exact) / size, noise / size]


def _gaussian(kernel, rho, seed, replicates, steps):
    """n times the summed variance of the sample mean, predicted and simulated."""
    root = jnp.asarray(np.linalg.cholesky(COVARIANCE))
    precision = jnp.asarray(np.linalg.inv(COVARIANCE))
    logdensity = lambda x: -0.5 * x @ precision @ x
    gain = srmc.gain(rho, delay=DELAY)

    def mala(key, alpha):
        options = {"alpha": srmc.fixed(alpha), "gain": gain, "surrogate": srmc.tilt()}
        algorithm = srmc.mala(logdensity, STEP_SIZE, **options)
        start_key, key = jax.random.split(key)

        def step(n, carry):
            state, total = carry
            state, _ = algorithm.step(jax.random.fold_in(key, n), state)
            return state, total + state.position

        start = algorithm.init(root @ jax.random.normal(start_key, (2,)))
        return jax.lax.fori_loop(0, steps, step, (start, jnp.zeros(2)))[1]

    def independent(key, alpha):
        def step(n, carry):
            theta, total = carry
            # the tilted Gaussian is the shifted one
            x = root @ jax.random.normal(jax.random.fold_in(key, n), (2,)) + alpha * theta
            return theta + gain(n + 1) * (-precision @ x - theta), total + x

        return jax.lax.fori_loop(0, steps, step, (jnp.zeros(2), jnp.zeros(2)))[1]

    one = {"mala": mala, "independent": independent}[kernel]
    keys = jax.random.split(jax.random.key(seed), replicates)
    sums = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (None, 0)))(keys, jnp.asarray(ALPHAS))
    case = theory.gaussian(COVARIANCE, kernel, step_size=STEP_SIZE)
    rows = []
    for alpha, total in zip(ALPHAS, np.asarray(sums, float), strict=True):
        each = np.sum((total / steps) ** 2, axis=1) * steps
        if rho == 1:
            exact = theory.gaussian_mean_covariance(COVARIANCE, case.noise[2:, 2:], alpha)
        else:
            exact = theory.average_covariance(*case, alpha=alpha)
        estimate = Estimate(float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5))
        rows.append({"alpha": alpha, "predicted": float(np.trace(exact)), "simulated": estimate})
    return rows


def _slope(rows, name=None):
    """Of the simulated numbers, log against log, over the two largest alphas, with its error."""
    values = [r["simulated"] if name is None else _with_noise(r, name) for r in rows[-2:]]
    ratio = np.log(rows[-1]["alpha"] / rows[-2]["alpha"])
    error = np.sqrt(sum((v.error / v.value) ** 2 for v in values)) / ratio
    return Estimate(float(np.log(values[1].value / values[0].value) / ratio), float(error))


def _near(rows):
    """Whether each simulated number is within four errors, or 10%, of the predicted one."""
    return [
        abs(r["simulated"].value - r["predicted"])
        <= max(4 * r["simulated"].error, 0.1 * r["predicted"])
        for r in rows
    ]


def _order_row(chain):
    norms = [r["theta"][1] for r in chain]
    slope = _slope(chain, "theta")
    far = [r["distance"][0] < max(0.1, 3 * r["distance"][1]) for r in chain]
    return Row(
        "prop:alpha_order",
        "the covariance of the history falls with alpha, as 1/alpha",
        "O(1/alpha)",
        {f"norm, alpha = {r['alpha']:g}": _with_noise(r, "theta") for r in chain}
        | {"slope from 4 to 16": slope},
        {
            "the norm falls from each alpha to the next": bool(np.all(np.diff(norms) < 0)),
            "the slope from alpha 4 to 16 is between -1.1 and -0.75": -1.1 < slope.value < -0.75,
            "all are within 10%, or three errors, of the Lyapunov equation": all(far),
        },
        f"Predicted norms {_list(r['theta'][0] for r in chain)}. The slope is that of "
        "1/(1/2 + alpha lambda), which is -1 only when alpha lambda is large.",
    )


def _with_noise(row, name):
    return Estimate(row[name][1], row["distance"][1] * row[name][1])


def _blocks_row(chain):
    cross, mean = _slope(chain, "cross"), _slope(chain, "mean")
    return Row(
        "subsec:alpha-block",
        "the cross-covariance falls as 1/alpha, that of the estimate stays bounded",
        "O(1/alpha), O(1)",
        {"slope of the cross block": cross, "slope of the estimate's block": mean},
        {
            "the cross block's slope from alpha 4 to 16 is below -0.6": cross.value < -0.6,
            "the estimate's is above -0.5": mean.value > -0.5,
        },
        "What the features do not explain of f is left, however large alpha is.",
    )


def _independent_row(rows):
    values = [r["simulated"].value for r in rows]
    return Row(
        "prop:independent-sampling",
        "with independent draws the covariance of the estimate falls with alpha to a residual",
        "closed form, O(1/alpha)",
        {f"n Var, alpha = {r['alpha']:g}": r["simulated"] for r in rows},
        {
            "all are within four errors, or 10%, of the closed form": all(_near(rows)),
            "each alpha is below the one before": bool(np.all(np.diff(values) < 0)),
        },
        f"Predicted {_list(r['predicted'] for r in rows)}; on a Gaussian with f = x "
        "the residual is 0.",
    )


def _gaussian_row(rows):
    slope = _slope(rows)
    return Row(
        "prop:gaussian-mean",
        "on a Gaussian the covariance of the sample mean falls as 1/alpha",
        "V Sigma V, O(1/alpha)",
        {f"n Var, alpha = {r['alpha']:g}": r["simulated"] for r in rows} | {"slope": slope},
        {
            "all are within four errors, or 10%, of V Sigma V": all(_near(rows)),
            "the slope from alpha 4 to 16 is between -1.15 and -0.75": -1.15 < slope.value < -0.75,
        },
        "MALA's noise is that of its autoregression; predicted "
        f"{_list(r['predicted'] for r in rows)}.",
    )


def _budget_row(rows):
    plain, repelled = rows[0], rows[-1]
    costs = 1.0, 3.0
    ratio = costs[1] * repelled["simulated"].value / (costs[0] * plain["simulated"].value)
    error = ratio * np.hypot(
        *(r["simulated"].error / r["simulated"].value for r in (plain, repelled))
    )
    exact = (
        theory.budget_covariance([[repelled["predicted"]]], costs[1])
        / theory.budget_covariance([[plain["predicted"]]], costs[0])
    ).item()
    return Row(
        "thm:cost_based_clt_srmc",
        "at three gradients a step instead of one, large alpha still pays on the Gaussian",
        "3 d Sigma_X = O(d / alpha)",
        {"variance a budget, alpha = 16 over alpha = 0": Estimate(float(ratio), float(error))},
        {
            "it is below 1, by two errors": ratio + 2 * error < 1,
            "it is within four errors, or 10%, of the theorem": abs(ratio - exact)
            < max(4 * error, 0.1 * exact),
        },
        f"Predicted {exact:.3g}. The paper prints one covariance for both samplers; the base "
        "sampler has that of alpha = 0.",
    )


def _averages_row(rows):
    ratios, predicted = (
        [value(r) / value(rows[0]) for r in rows]
        for value in (lambda r: r["simulated"].value, lambda r: r["predicted"])
    )
    return Row(
        "eq:sample_mean_scaling",
        "the covariance of the plain average is O(1/alpha); here with rho = 0.8",
        "O(1/alpha)",
        {f"n Var, alpha = {r['alpha']:g}": r["simulated"] for r in rows},
        {
            "from alpha 4 to 16 it falls by a factor of 4 or more": ratios[3] < ratios[2] / 4,
            "it falls from each alpha to the next": bool(np.all(np.diff(ratios) < 0)),
        },
        f"With rho < 1 plain averages fall as 1/alpha^2: over alpha = 0, {_list(ratios)}, in the "
        f"limit {_list(predicted)}; the last window of the history adds to short runs.",
    )


def _list(values):
    return ", ".join(f"{x:.3g}" for x in values)


def _picture(chain, found):
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    x = 1 + np.array(ALPHAS)
    names = {"theta": "history", "cross": "cross", "mean": "estimate"}
    for colour, (name, label) in zip(("C0", "C1", "C2"), names.items(), strict=True):
        exact, simulated = np.array([r[name] for r in chain]).T
        left.plot(x, exact, color=colour, label=f"{label}, predicted")
        left.plot(x, simulated, "o", color=colour)
    left.set(title="Finite chain, ρ = 1", ylabel="norm of the covariance block")
    for colour, ((kernel, rho), rows) in zip(("C0", "C1", "C2"), found.items(), strict=True):
        unit = rows[0]["predicted"]
        right.plot(
            x,
            [r["predicted"] / unit for r in rows],
            color=colour,
            label=f"{kernel if kernel != 'mala' else 'MALA'}, ρ = {rho:g}",
        )
        middle = np.array([r["simulated"].value for r in rows]) / unit
        bars = 1.96 * np.array([r["simulated"].error for r in rows]) / unit
        right.errorbar(x, middle, bars, fmt="o", color=colour, capsize=3)
    right.set(title="Gaussian, sample mean", ylabel="variance over that of α = 0")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="1 + α")
        axis.legend(fontsize=9)
    return figure
