import itertools

import jax
import numpy as np
import pytest

import srmc
from srmc import theory
from srmc_studies.paper.variance_laws import random_tables


def random_case(seed=3):
    tables = random_tables(seed)
    pi, proposal, features, values = tables
    return tables, theory.finite(theory.metropolis(pi, proposal), pi, features, values)


def assert_covariance(found, exact):
    """Every entry within 4 standard errors, and all within 10% in norm."""
    centred = found - found.mean(axis=0)
    error = (centred[:, :, None] * centred[:, None]).std(axis=0) / len(found) ** 0.5
    covariance = np.cov(found, rowvar=False)
    assert np.max(np.abs(covariance - exact) / error) < 4
    assert np.linalg.norm(covariance - exact) < 0.1 * np.linalg.norm(exact)


# For rho < 1 any scale of the gain has the same limit; this one gets there sooner.
SLOW, FAST = srmc.gain(1.0), srmc.gain(0.8, scale=3.0)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(("gain", "alpha"), [(SLOW, 5.0), (FAST, 1.0)])
def test_simulated_covariances_are_those_of_the_limit(gain, alpha):
    tables, case = random_case()
    run = theory.simulate(
        jax.random.key(1), *tables, alpha=alpha, gain=gain, num_steps=10_000, num_replicates=4096
    )
    exact = theory.asymptotic_covariance(*case, alpha=alpha, rho=gain.rho)
    assert_covariance(np.concatenate([run.theta, run.mean], axis=1), exact)
    if gain.rho < 1:
        assert_covariance(run.average, theory.average_covariance(*case, alpha=alpha))
    else:
        assert_covariance(run.average, theory.blocks(exact, 3).mean)


def test_the_lyapunov_equation_is_solved_and_its_correction_is_exact_without_repellence():
    _, case = random_case()
    for rho in (0.7, 1.0):
        covariance = theory.asymptotic_covariance(*case, alpha=2.0, rho=rho)
        drift = theory.jacobian(case.cov_ss, case.cov_fs, 2.0) + (rho == 1) / 2 * np.eye(5)
        np.testing.assert_allclose(drift @ covariance + covariance @ drift.T, -case.noise)
    # alpha = 0 and white noise of variance 1: V' = (1 - gamma)^2 V + gamma^2
    variance, n = 0.0, 2000
    for k in range(1, n + 1):
        gamma = (k + 1) ** -0.8
        variance = (1 - gamma) ** 2 * variance + gamma**2
    white = np.eye(1), np.zeros((1, 1)), np.eye(2)
    limit, corrected = (
        theory.asymptotic_covariance(*white, alpha=0.0, rho=0.8, num_steps=steps)[0, 0]
        for steps in (None, n)
    )
    exact = variance / (n + 1) ** -0.8
    assert abs(corrected - exact) < 0.1 * abs(limit - exact)


def test_blocks_fall_with_alpha_at_the_orders_that_the_paper_gives():
    _, case = random_case()
    alphas = np.array([1e3, 1e4])
    parts = [theory.blocks(theory.asymptotic_covariance(*case, a, 1.0), 3) for a in alphas]
    slopes = [
        np.diff(np.log([np.linalg.norm(getattr(p, name)) for p in parts]))[0] / np.log(10)
        for name in theory.Blocks._fields
    ]
    np.testing.assert_allclose(slopes, [-1, -1, 0], atol=0.02)
    norms = [
        np.linalg.norm(theory.blocks(theory.asymptotic_covariance(*case, a, 0.8), 3).theta)
        for a in (0, 0.1, 1, 10, 100)
    ]
    assert np.all(np.diff(norms) < 0)


def test_averages_tend_to_the_control_variate_as_one_over_alpha_squared():
    # With independent draws; else the noise need not fall along with the covariance.
    (pi, _, features, values), case = random_case()
    centred = values - pi @ values
    cov_ff = centred.T @ (pi[:, None] * centred)
    noise = theory.independent_noise(case.cov_ss, case.cov_fs, cov_ff)
    limit = theory.control_variate_covariance(case.cov_ss, case.cov_fs, noise)
    gaps = [
        np.linalg.norm(theory.average_covariance(*case[:2], noise, a) - limit) for a in (1e2, 1e3)
    ]
    assert np.log10(gaps[1] / gaps[0]) == pytest.approx(-2, abs=0.05)
    weights = np.linalg.solve(case.cov_ss, case.cov_fs.T)
    rest = centred - features @ weights
    np.testing.assert_allclose(limit, rest.T @ (pi[:, None] * rest), atol=1e-12)


@pytest.mark.parametrize("rho", [0.8, 1.0])
def test_independent_draws_have_the_closed_form_and_fall_in_the_loewner_order(rho):
    (pi, _, _, values), case = random_case()
    centred = values - pi @ values
    cov_ff = centred.T @ (pi[:, None] * centred)
    noise = theory.independent_noise(case.cov_ss, case.cov_fs, cov_ff)
    closed = lambda a: theory.independent_covariance(case.cov_ss, case.cov_fs, cov_ff, a, rho)
    alphas = (0.0, 0.5, 2.0, 10.0, 1e6)
    for alpha in alphas:
        solved = theory.asymptotic_covariance(case.cov_ss, case.cov_fs, noise, alpha, rho)
        np.testing.assert_allclose(theory.blocks(solved, 3).mean, closed(alpha), atol=1e-9)
    for low, high in itertools.pairwise(alphas):
        assert np.min(np.linalg.eigvalsh(closed(low) - closed(high))) > -1e-12
    residual = closed(np.inf)
    assert np.min(np.linalg.eigvalsh(residual)) >= -1e-12
    np.testing.assert_allclose(closed(1e6), residual, atol=1e-5)


def test_a_preconditioner_is_a_change_of_coordinates():
    _, case = random_case()
    root = np.array([[1.0, 0.3, 0.0], [0.0, 2.0, 0.1], [0.2, 0.0, 0.5]])
    turn = np.block([[root.T, np.zeros((3, 2))], [np.zeros((2, 3)), np.eye(2)]])
    turned = root.T @ case.cov_ss @ root, case.cov_fs @ root, turn @ case.noise @ turn.T
    plain = theory.asymptotic_covariance(*turned, alpha=2.0, rho=1.0)
    with_a = theory.asymptotic_covariance(*case, 2.0, 1.0, preconditioner=root @ root.T)
    np.testing.assert_allclose(turn @ with_a @ turn.T, plain)
    np.testing.assert_allclose(
        theory.average_covariance(*turned, alpha=2.0),
        theory.average_covariance(*case, alpha=2.0, preconditioner=root @ root.T),
    )


def test_a_budget_weighs_variance_with_cost():
    _, case = random_case()
    plain, repelled = (theory.average_covariance(*case, alpha=a) for a in (0.0, 50.0))
    np.testing.assert_allclose(theory.budget_covariance(plain, [1, 3]), 2 * plain)
    cheap, dear = (np.trace(theory.budget_covariance(repelled, cost)) for cost in (2.0, 1e6))
    assert cheap < np.trace(theory.budget_covariance(plain, 1.0)) < dear


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: theory.asymptotic_covariance(*c, alpha=-1.0, rho=1.0), "alpha must be"),
        (lambda c: theory.asymptotic_covariance(*c, alpha=1.0, rho=0.5), "rho must be"),
        (lambda c: theory.average_covariance(c[0], c[1].T, c[2], 1.0), "cov_fs must be"),
        (lambda c: theory.average_covariance(*c[:2], c[2][:4, :4], 1.0), "noise must be"),
        (lambda c: theory.average_covariance(*c, 1.0, np.eye(2)), "preconditioner must be"),
        (lambda c: theory.budget_covariance(c[2], 0.0), "costs must be positive"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(random_case()[1])


@pytest.mark.parametrize(("alpha", "dear"), [(0.0, 1.0), (2.0, 3.0)])
def test_a_budget_of_random_costs_stops_each_run_elsewhere(alpha, dear):
    """sqrt(B) times the errors have covariance C Sigma, C the mean cost (eq:cost_clt_joint).

    The cost of a step is random, and depends on the state. Without repellence, the covariance is
    that of alpha = 0, where the paper prints the same letter for both (eq:cost_clt_base).
    """
    tables, case = random_case()
    costs = dear * np.linspace(0.2, 3.0, len(tables[0]))
    run = theory.simulate(
        jax.random.key(2),
        *tables,
        alpha=alpha,
        gain=srmc.gain(1.0),
        num_steps=2500,
        num_replicates=2048,
        costs=costs,
        budget=2000.0 * dear,
    )
    mean_cost = float(tables[0] @ costs)
    assert np.mean(run.steps) == pytest.approx(2000 * dear / mean_cost, rel=0.02)
    assert np.std(run.steps) > 10
    exact = theory.asymptotic_covariance(*case, alpha=alpha, rho=1.0)
    errors = np.concatenate([run.theta, run.mean], axis=1)
    assert_covariance(errors, theory.budget_covariance(exact, costs @ tables[0]))
    assert_covariance(run.average, theory.budget_covariance(exact, mean_cost)[3:, 3:])


@pytest.mark.parametrize("rho", [0.8, 1.0])
def test_the_residual_is_the_variance_that_the_score_does_not_explain(rho):
    """R = Cov(g, g) / (2 beta) with g = f - C S^-1 s, state by state (eq:R-def)."""
    (pi, _, s, f), case = random_case()
    centred = f - pi @ f
    cov_ff = centred.T @ (pi[:, None] * centred)
    g = centred - s @ np.linalg.solve(case.cov_ss, case.cov_fs.T)
    expected = g.T @ (pi[:, None] * g) / (1 if rho == 1 else 2)
    residual = theory.residual_covariance(case.cov_ss, case.cov_fs, cov_ff, rho)
    np.testing.assert_allclose(residual, expected, atol=1e-12)
    arguments = case.cov_ss, case.cov_fs, cov_ff
    last = theory.independent_covariance(*arguments, 1e8, rho)
    np.testing.assert_allclose(last, residual, atol=1e-7)
    np.testing.assert_array_equal(theory.independent_covariance(*arguments, np.inf, rho), residual)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 10.0}, "costs and budget must be given together"),
        ({"costs": -np.ones(5), "budget": 10.0}, "costs must be finite and > 0"),
        ({"costs": 1e-3, "budget": 1e6}, "num_steps must suffice to spend the budget"),
        ({"costs": 1e6, "budget": 1e-3}, "budget must suffice for a step"),
    ],
)
def test_bad_budgets_are_named(options, words):
    tables, _ = random_case()
    if np.ndim(options.get("costs", ())) == 0:
        options = options | {"costs": options["costs"] * np.ones(len(tables[0]))}
    with pytest.raises(ValueError, match=words):
        theory.simulate(
            jax.random.key(0),
            *tables,
            alpha=1.0,
            gain=srmc.gain(1.0),
            num_steps=5,
            num_replicates=3,
            **options,
        )
