"""Where each algorithm, equation, theorem, figure and table of the paper is in this library.

`python -m srmc.paper._map docs/reproduction/ledger.json > docs/paper.md` writes the page; commands
and verdicts come from the ledger, and a test checks that functions and tests exist.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from srmc.paper._ledger import LedgerRow


class Entry(NamedTuple):
    """Labels of the paper, what they are, and the functions and the test that hold them.

    sections
        Labels of sections under which the ledger has rows about this entry.
    """

    labels: str
    what: str
    functions: str = ""
    test: str = ""
    sections: str = ""


REPEL, SITES, LIMIT = "core/test_repel.py", "discrete/test_sites.py", "theory/test_limit.py"
FIELD, NOISE, PRINTED = (
    "theory/test_meanfield.py",
    "theory/test_noise.py",
    "discrete/test_as_printed.py",
)

ENTRIES: dict[str, list[Entry]] = {
    "Algorithms": [
        Entry("alg:srmc", "SRMC around any kernel", "repel paper_settings",
              f"{REPEL}::test_the_history_is_the_paper_s_recursion", "sec:conclusion"),
        Entry("alg:sr_mh", "SR-MH", "mh flip_mh",
              f"{REPEL}::test_adjusted_kernels_leave_the_surrogate_invariant"),
        Entry("alg:sr_ula", "SR-ULA", "ula",
              "core/test_split.py::test_the_draws_are_those_of_the_generic_step"),
        Entry("alg:sr_mala", "SR-MALA, in three gradients with finite differences", "mala",
              "core/test_split.py::test_the_draws_are_those_of_the_generic_step"),
        Entry("alg:sr_hmc", "SR-HMC", "hmc",
              f"{REPEL}::test_adjusted_kernels_leave_the_surrogate_invariant"),
        Entry("alg:sr_discrete", "SR-GWG, SR-DLP and the template of both", "gwg dlp",
              f"{PRINTED}::test_proposals_and_acceptance_are_the_paper_s",
              "sec:algo_implementation"),
    ],
    "Equations": [
        Entry("eq:theta_def eq:srmc-sa eq:sa-compact", "the history and its gain", "gain",
              "core/test_history.py::test_gain_is_the_formula"),
        Entry("eq:score_tilt eq:pi-theta", "the tilted target", "tilt",
              "core/test_surrogate.py::test_the_value_of_a_tilt_is_exact"),
        Entry("eq:mh_accept", "acceptance under the tilt", "mh",
              f"{REPEL}::test_adjusted_kernels_leave_the_surrogate_invariant"),
        Entry("eq:surrogate-score", "the surrogate score", "tilt",
              "core/test_surrogate.py::test_the_gradient_of_a_tilt"),
        Entry("eq:hessian_approximation", "its finite differences", "tilt",
              "core/test_surrogate.py::test_the_finite_difference_is_the_paper_s"),
        Entry("eq:locally_balanced", "locally balanced proposals", "locally_balanced",
              "theory/test_kernels.py::test_the_matrix_leaves_the_surrogate_invariant"),
        Entry("eqn:discrete_score", 'the discrete score, feature="stein"', "gwg",
              f"{SITES}::test_exact_features_have_mean_zero"),
        Entry("eq:SigmaDelta", "the noise of the base chain", "theory.markov_noise",
              f"{NOISE}::test_markov_noise_is_the_sum_of_all_autocovariances"),
        Entry("eq:Jacobian eq:jacobian-block", "the Jacobian of the mean field", "theory.jacobian",
              f"{FIELD}::test_the_root_is_the_target_and_its_jacobian_is_the_paper_s"),
        Entry("eq:Lyapunov eq:lyapunov eq:block-tt eq:block-tm eq:block-mm",
              "the Lyapunov equation", "theory.asymptotic_covariance theory.blocks",
              f"{LIMIT}::test_the_lyapunov_equation_is_solved_and_its_correction_is_exact"
              "_without_repellence", "subsec:alpha-block"),
        Entry("eq:ode eq:augmented-mean-field eq:joint-sa", "the mean-field ODE",
              "theory.MeanField", f"{FIELD}::test_paths_contract_as_the_paper_s_bound_says"),
        Entry("eq:R-def eq:Sigma-mm-independent eq:Sigma-mm-step4", "the residual R",
              "theory.residual_covariance theory.independent_covariance",
              f"{LIMIT}::test_the_residual_is_the_variance_that_the_score_does_not_explain"),
        Entry("eq:sample_mean_scaling eq:CLT-mean eq:CLT-transfer eq:Sigma-X-formula",
              "sample means of a Gaussian", "theory.gaussian_mean_covariance",
              f"{NOISE}::test_sample_means_of_a_gaussian_have_the_closed_forms_with_rho_1"),
        Entry("eq:cost_per_sample_limits eq:cost_clt_joint eq:cost_clt_base eq:random_time_clt",
              "errors after a budget", "theory.budget_covariance theory.simulate",
              f"{LIMIT}::test_a_budget_of_random_costs_stops_each_run_elsewhere"),
        Entry("eq:corr_gaussian", "the correlated Gaussian", "targets.gaussian",
              "targets/test_targets.py::test_gaussian_density", "app:simulation_setup"),
        Entry("eq:logistic_model eq:logistic_posterior eq:logistic_score",
              "the logistic posterior", "targets.logistic",
              "targets/test_targets.py::test_logistic_reference_is_that_of_a_fine_grid"),
    ],
    "Assumptions, theorems and propositions": [
        Entry("ass:Z-finite eq:s-lip lem:Z-finite tab:assumption-summary",
              "tails of the target", "theory.check_tails",
              "theory/test_assumption.py::test_what_breaks_the_assumption_is_named"),
        Entry("thm:main eq:CLT", "convergence and the limit theorem",
              "theory.asymptotic_covariance",
              f"{LIMIT}::test_simulated_covariances_are_those_of_the_limit"),
        Entry("prop:alpha_order eq:alpha_order", "the history's covariance falls as 1/alpha",
              "theory.blocks",
              f"{LIMIT}::test_blocks_fall_with_alpha_at_the_orders_that_the_paper_gives"),
        Entry("prop:finite_state_t33", "the same with the discrete score",
              "theory.finite theory.transition_matrix",
              "theory/test_kernels.py::test_simulated_covariances_are_those_of_the_limit"),
        Entry("prop:ode-stable", "one stable equilibrium, with contraction", "theory.MeanField",
              f"{FIELD}::test_theta_follows_the_gradient_of_a_strongly_convex_potential"),
        Entry("prop:independent-sampling", "independent draws", "theory.independent_covariance",
              f"{LIMIT}::test_independent_draws_have_the_closed_form_and_fall_in_the_loewner_order"),
        Entry("prop:gaussian-mean", "means of a Gaussian", "theory.gaussian_mean_covariance",
              f"{NOISE}::test_sample_means_of_a_gaussian_have_the_closed_forms_with_rho_1"),
        Entry("thm:cost_based_clt_srmc", "the limit theorem after a budget",
              "theory.budget_covariance",
              f"{LIMIT}::test_a_budget_of_random_costs_stops_each_run_elsewhere"),
    ],
    "Figures and tables": [
        Entry("fig:intro", "escape from a narrow mode", "targets.mixture", "",
              "sec:appendix-figure1"),
        Entry("fig:two_col_subfigs", "errors on the Gaussian and the logistic posterior",
              "targets.gaussian targets.logistic", "", "sec:exp_continuous"),
        Entry("fig:app_rho_sensitivity", "the exponent of the gain", "gain"),
        Entry("fig:app_epsilon_sensitivity", "the length of the finite difference", "tilt"),
        Entry("fig:app_adaptive_alpha_steps", "schedules of alpha", "capped guarded",
              "core/test_strength.py::test_two_hot_opening_windows_tell_the_readings_apart",
              "app:hyperparameter_sensitivity sec:hyperparameter_tuning"),
        Entry("tab:gmm_results fig:gmm_results fig:gmm_coverage fig:gmm_hopping",
              "the mixture of 1,000 images", "metrics.mode_coverage",
              "metrics/test_metrics.py::test_mode_coverage_by_hand", "app:cifar_extra"),
        Entry("tab:single_chain fig:single_chain", "classes along one chain",
              "ula metrics.total_variation",
              "metrics/test_metrics.py::test_total_variation_and_entropy_by_hand"),
        Entry("tab:cifar_parallel_chains fig:multi_chain", "classes of the last states",
              "ula metrics.total_variation",
              "metrics/test_metrics.py::test_total_variation_and_entropy_by_hand"),
        Entry("fig:mnist_metrics fig:app_mnist_snapshots fig:mnist_traj_gwg_1 "
              "fig:mnist_traj_srmc_1", "mixing from one digit",
              "gwg metrics.kl_divergence metrics.vendi_score",
              "metrics/test_metrics.py::test_only_one_direction_of_kl_from_uniform_is_bounded",
              "app:mnist_metrics"),
        Entry("tab:mnist_ais", "diversity of annealed samples", "ais metrics.vendi_score"),
        Entry("remark:alpha", "alpha is small on discrete spaces", "gwg"),
    ],
}  # fmt: skip

# Steps of proofs, which have no code of their own.
PROOFS = [
    "eq:A.1.1",
    "ass:DV3",
    "eq:DV3",
    "ass:kernel",
    "eq:kernel-lip",
    "ass:kernel-lip",
    "remark:dv3_finite_space",
    "prop:kernel-lip-mh",
    "eq:mh-lip-cond",
    "prop:kernel-lip-mala",
    "eq:TVbound",
    "eq:h-integral-aug",
    "eq:h-integral-expanded",
    "eq:h-theta-integral",
    "eq:h-mu-integral",
    "eq:A-bar",
    "eq:B-bar",
    "lem:cov-convergence",
    "eq:laplace-cov",
    "prop:h-infty-exists",
    "eq:h-infty-p2",
    "eq:h-scaled",
    "prop:ode-infty-stable-aug",
    "eq:ode-theta",
    "eq:ode-mu",
    "eq:derivative-identity",
    "eq:cov-derivative",
    "eq:cov-ss-deriv-bound",
    "eqn:sigma_tilde",
    "eq:sylvester-integral",
    "eq:U-tt-indep",
    "eq:U-tm-indep",
    "eq:U-mm-indep",
    "eq:Sigma-tt-diagonal",
    "eq:Sigma-tt-indep",
    "eq:Sigma-tm-closed",
    "eq:gaussian-score",
    "eq:S-gaussian",
    "eq:C-gaussian",
    "eq:x-score-relation",
]


def markdown(rows: Sequence[LedgerRow]) -> str:
    """The page, with commands and verdicts from the rows of a ledger."""
    lines = [
        "# The paper, place by place",
        "",
        "This page lists the algorithms, equations, theorems, figures and tables of the paper, "
        "with the function that holds each, the test that checks it, the command that repeats the "
        "paper's claims about it, and the verdicts of the [ledger](reproduction/ledger.md). It is "
        "written by `python -m srmc.paper._map`, and a test keeps it true.",
    ]
    for title, entries in ENTRIES.items():
        head = ("in the paper", "what", "function", "test", "command", "verdicts")
        lines += ["", f"## {title}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        lines += [f"| {' | '.join(_cells(entry, rows))} |" for entry in entries]
    lines += ["", "## Steps of proofs", "", "These have no code of their own: "]
    lines[-1] += ", ".join(f"`{label}`" for label in PROOFS) + "."
    return "\n".join(lines) + "\n"


def _cells(entry: Entry, rows: Sequence[LedgerRow]) -> tuple[str, ...]:
    keys = {*entry.labels.split(), *entry.sections.split()}
    mine = [row for row in rows if keys & {part.strip() for part in row["where"].split(",")}]
    verdicts = Counter(row["verdict"] for row in mine)
    order = [v for v in ("reproduced", "partly", "not") if v in verdicts]
    return (
        "<br>".join(f"`{label}`" for label in entry.labels.split()),
        entry.what,
        "<br>".join(f"`srmc.{name}`" for name in entry.functions.split()),
        f"`tests/{entry.test}`" if entry.test else "",
        "<br>".join(f"`{command}`" for command in dict.fromkeys(row["command"] for row in mine)),
        ", ".join(f"{verdicts[v]} {v}" for v in order) or ("" if entry.test else "not repeated"),
    )


if __name__ == "__main__":
    sys.stdout.write(markdown(json.loads(Path(sys.argv[1]).read_text())))
