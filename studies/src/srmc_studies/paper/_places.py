"""Each algorithm, equation, theorem, figure and table of the paper, and what holds it here."""

from typing import NamedTuple


class Entry(NamedTuple):
    """Labels of the paper, what they are, and the functions and the test that hold them.

    sections
        Labels of sections under which the ledger has rows about this entry.
    erratum
        Whether docs/errata.md has a correction to what the paper prints here.
    """

    labels: str
    what: str
    functions: str
    test: str
    sections: str = ""
    erratum: bool = False


TRANSCRIBED = "tests/repel/test_transcriptions.py::test"
REPEL, SITES, LIMIT = (
    "tests/repel/test_repel.py",
    "tests/kernels/test_sites.py",
    "tests/theory/test_limit.py",
)
FORMULAS = "tests/theory/test_formulas.py"
EXPERIMENT = (
    "studies/tests/paper/test_reproduction.py::test_an_experiment_leaves_nothing_to_defaults_and_all_its_rows"
    "_are_complete_and_shown"
)
FIELD, NOISE, PRINTED = (
    "tests/theory/test_meanfield.py",
    "tests/theory/test_noise.py",
    "tests/kernels/test_as_printed.py",
)

ENTRIES: dict[str, list[Entry]] = {
    "Algorithms": [
        Entry("alg:srmc", "SRMC around any kernel: `Loop.step` in `repel/loop.py`",
              "repel paper_settings",
              f"{REPEL}::test_the_history_is_the_paper_s_recursion", "sec:conclusion"),
        Entry("alg:sr_mh", "SR-MH", "mh flip_mh", f"{TRANSCRIBED}_sr_mh"),
        Entry("alg:sr_ula", "SR-ULA", "ula", f"{TRANSCRIBED}_sr_ula"),
        Entry("alg:sr_mala", "SR-MALA, in three gradients with finite differences", "mala",
              f"{TRANSCRIBED}_sr_mala"),
        Entry("alg:sr_hmc", "SR-HMC", "hmc", f"{TRANSCRIBED}_sr_hmc"),
        Entry("alg:sr_discrete", "SR-GWG, SR-DLP and the template of both", "gwg dlp",
              f"{PRINTED}::test_proposals_and_acceptance_are_the_paper_s",
              "sec:algo_implementation"),
    ],
    "Equations": [
        Entry("eq:theta_def eq:srmc-sa eq:sa-compact", "the history and its gain", "gain",
              "tests/repel/test_history.py::test_gain_is_the_formula"),
        Entry("eq:score_tilt eq:pi-theta", "the tilted target", "tilt",
              "tests/repel/test_surrogate.py::test_the_value_of_a_tilt_is_exact"),
        Entry("eq:mh_accept", "acceptance under the tilt", "mh",
              f"{REPEL}::test_adjusted_kernels_leave_the_surrogate_invariant"),
        Entry("eq:surrogate-score", "the surrogate score", "tilt",
              "tests/repel/test_surrogate.py::test_the_gradient_of_a_tilt"),
        Entry("eq:hessian_approximation", "its finite differences", "tilt",
              "tests/repel/test_surrogate.py::test_the_finite_difference_is_the_paper_s"),
        Entry("eq:locally_balanced", "locally balanced proposals", "locally_balanced",
              "tests/theory/test_kernels.py::test_the_matrix_leaves_the_surrogate_invariant"),
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
        Entry("eq:derivative-identity eq:cov-derivative eq:cov-ss-deriv-bound",
              "derivatives of means and covariances under the tilt", "theory.MeanField",
              f"{FORMULAS}::test_derivatives_under_the_tilt_are_covariances"),
        Entry("eq:h-integral-aug eq:h-integral-expanded eq:h-theta-integral eq:h-mu-integral "
              "eq:A-bar eq:B-bar eq:h-scaled", "the mean field as an integral",
              "theory.MeanField", f"{FORMULAS}::test_the_field_is_the_integral_of_its_jacobian"),
        Entry("eq:sylvester-integral", "the cross block as an integral",
              "theory.asymptotic_covariance", f"{FORMULAS}::test_the_cross_block_is_an_integral"),
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
              f"{TRANSCRIBED}_the_cost_clt", erratum=True),
        Entry("eq:corr_gaussian", "the correlated Gaussian", "targets.gaussian",
              "tests/targets/test_targets.py::test_gaussian_density", "app:simulation_setup"),
        Entry("eq:logistic_model eq:logistic_posterior eq:logistic_score",
              "the logistic posterior", "targets.logistic",
              "tests/targets/test_targets.py::test_logistic_reference_is_that_of_a_fine_grid"),
    ],
    "Assumptions, theorems and propositions": [
        Entry("ass:Z-finite eq:s-lip lem:Z-finite tab:assumption-summary",
              "tails of the target", "theory.check_tails",
              "tests/theory/test_assumption.py::test_what_breaks_the_assumption_is_named"),
        Entry("thm:main eq:CLT", "convergence and the limit theorem",
              "theory.asymptotic_covariance",
              f"{LIMIT}::test_simulated_covariances_are_those_of_the_limit"),
        Entry("prop:kernel-lip-mh eq:mh-lip-cond eq:kernel-lip ass:kernel-lip",
              "the kernel changes no faster than alpha theta, here on a finite space",
              "theory.transition_matrix",
              f"{FORMULAS}::test_the_printed_lipschitz_constant_of_sr_mh_is_exceeded_by_a_factor_of_two",
              erratum=True),
        Entry("prop:kernel-lip-mala eq:TVbound", "the same for the proposals of MALA", "mala tilt",
              f"{FORMULAS}::test_proposals_of_mala_are_lipschitz_in_theta"),
        Entry("eq:A.1.1", "the bound under which the tilt can be normalised", "targets.logistic",
              f"{FORMULAS}::test_the_exponent_is_bounded_by_the_lipschitz_constant"),
        Entry("lem:cov-convergence eq:laplace-cov prop:h-infty-exists eq:h-infty-p2",
              "covariances and the mean field far out, here of a Gaussian", "theory.check_tails",
              f"{FORMULAS}::test_the_field_at_infinity_of_a_gaussian"),
        Entry("prop:ode-infty-stable-aug eq:ode-theta eq:ode-mu",
              "stability far out, here of a Gaussian", "theory.MeanField",
              f"{FORMULAS}::test_the_field_at_infinity_of_a_gaussian"),
        Entry("prop:alpha_order eq:alpha_order eqn:sigma_tilde",
              "the history's covariance falls as 1/alpha", "theory.blocks",
              f"{LIMIT}::test_blocks_fall_with_alpha_at_the_orders_that_the_paper_gives"),
        Entry("prop:finite_state_t33", "the same with the discrete score",
              "theory.finite theory.transition_matrix",
              "tests/theory/test_kernels.py::test_simulated_covariances_are_those_of_the_limit"),
        Entry("prop:ode-stable", "one stable equilibrium, with contraction", "theory.MeanField",
              f"{FIELD}::test_theta_follows_the_gradient_of_a_strongly_convex_potential"),
        Entry("prop:independent-sampling eq:U-tt-indep eq:U-tm-indep eq:U-mm-indep "
              "eq:Sigma-tt-diagonal eq:Sigma-tt-indep eq:Sigma-tm-closed", "independent draws",
              "theory.independent_covariance theory.independent_noise",
              f"{FORMULAS}::test_blocks_of_independent_draws_have_the_closed_forms"),
        Entry("prop:gaussian-mean eq:gaussian-score eq:S-gaussian eq:C-gaussian "
              "eq:x-score-relation", "means of a Gaussian", "theory.gaussian_mean_covariance",
              f"{NOISE}::test_sample_means_of_a_gaussian_have_the_closed_forms_with_rho_1"),
        Entry("thm:cost_based_clt_srmc", "the limit theorem after a budget",
              "theory.budget_covariance", f"{TRANSCRIBED}_the_cost_clt",
              "app:cost_based_clt_srmc"),
    ],
    "Numbered equations without a label, by their section": [
        Entry("sec:srmc", "the continuous-time dynamics", "ula", f"{TRANSCRIBED}_sr_ula"),
        Entry("sec:srmc", "stochastic gradients, from the complete recipe of the footnote",
              "sgld sghmc", "tests/kernels/test_stochastic.py::test_the_step_is_the_recursion"),
        Entry("sec:srmc", "underdamped Langevin, promised and not printed", "uld",
              f"{TRANSCRIBED}_sr_underdamped", erratum=True),
        Entry("sec:theory", "Sigma_mu_mu with independent draws", "theory.independent_covariance",
              f"{LIMIT}::test_independent_draws_have_the_closed_form_and_fall_in_the_loewner_order"),
        Entry("sec:appendix-figure1", "the mixture of figure 1, its mean, and its gain",
              "targets.mixture gain",
              "tests/targets/test_targets.py::test_mixture_density_and_banana_density"),
        Entry("sec:algo_implementation", "the proposal of SR-MALA", "mala",
              f"{TRANSCRIBED}_sr_mala"),
        Entry("sec:algo_implementation", "the Hamiltonian of SR-HMC", "hmc",
              f"{TRANSCRIBED}_sr_hmc"),
        Entry("sec:algo_implementation", "locally balanced proposals for the surrogate",
              "locally_balanced",
              "tests/theory/test_kernels.py::test_the_matrix_leaves_the_surrogate_invariant",
              "sec:algo_implementation"),
        Entry("subsec:sr-gwg", "the proposals of GWG and DLP, plain and repelled", "gwg dlp",
              f"{PRINTED}::test_proposals_and_acceptance_are_the_paper_s"),
        Entry("subsec:alpha-block", "the order and the decrease of Sigma_theta_theta",
              "theory.blocks",
              f"{LIMIT}::test_blocks_fall_with_alpha_at_the_orders_that_the_paper_gives",
              "subsec:alpha-block"),
        Entry("app:simulation_setup", "the squared error of a running mean",
              "metrics.replicate_mse", "tests/metrics/test_metrics.py::test_replicate_mse_by_hand"),
        Entry("app:hyperparameter_sensitivity", "the capped and the guarded schedule",
              "capped guarded",
              f"{TRANSCRIBED}_the_guarded_alpha"),
        Entry("app:cifar_extra", "the mixture of images", "ula",
              "studies/tests/paper/test_parts.py::test_the_score_of_the_mixture_is_the_gradient_of_its_log_density",
              erratum=True),
        Entry("app:cifar_extra", "KL, TV and normalised entropy from uniform classes",
              "metrics.kl_divergence metrics.total_variation metrics.normalised_entropy",
              "tests/metrics/test_metrics.py::test_total_variation_and_entropy_by_hand"),
        Entry("app:mnist_metrics", "the cumulative class histogram", "metrics.kl_divergence",
              "studies/tests/paper/test_ebm.py::test_paths_count_steps_and_gradients"),
    ],
    "Figures and tables": [
        Entry("fig:intro", "escape from a narrow mode", "targets.mixture", EXPERIMENT,
              "sec:appendix-figure1"),
        Entry("fig:two_col_subfigs", "errors on the Gaussian and the logistic posterior",
              "targets.gaussian targets.logistic", EXPERIMENT, "sec:exp_continuous"),
        Entry("fig:app_rho_sensitivity", "the exponent of the gain", "gain",
              "studies/tests/paper/test_reproduction.py::test_rows_of_rho_compare_every_horizon"),
        Entry("fig:app_epsilon_sensitivity", "the length of the finite difference", "tilt",
              EXPERIMENT),
        Entry("fig:app_adaptive_alpha_steps", "schedules of alpha", "capped guarded",
              "tests/repel/test_strength.py::test_two_hot_opening_windows_tell_the_readings_apart",
              "app:hyperparameter_sensitivity sec:hyperparameter_tuning"),
        Entry("tab:gmm_results fig:gmm_results fig:gmm_coverage fig:gmm_hopping",
              "the mixture of 1,000 images", "metrics.mode_coverage",
              "tests/metrics/test_metrics.py::test_mode_coverage_by_hand", "app:cifar_extra"),
        Entry("tab:single_chain fig:single_chain", "classes along one chain",
              "ula metrics.total_variation",
              "tests/metrics/test_metrics.py::test_total_variation_and_entropy_by_hand"),
        Entry("tab:cifar_parallel_chains fig:multi_chain", "classes of the last states",
              "ula metrics.total_variation",
              "tests/metrics/test_metrics.py::test_total_variation_and_entropy_by_hand"),
        Entry("fig:mnist_metrics fig:app_mnist_snapshots fig:mnist_traj_gwg_1 "
              "fig:mnist_traj_srmc_1", "mixing from one digit",
              "gwg metrics.kl_divergence metrics.vendi_score",
              "tests/metrics/test_metrics.py::test_only_one_direction_of_kl_from_uniform_is_bounded",
              "app:mnist_metrics"),
        Entry("tab:mnist_ais", "diversity of annealed samples", "ais metrics.vendi_score",
              "tests/kernels/test_ais.py::test_repelled_transitions_say_that_weights_are_not_exact"),
        Entry("remark:alpha", "alpha is small on discrete spaces", "gwg", EXPERIMENT),
    ],
}  # fmt: skip

# Assumptions that no code of ours checks.
UNCHECKED = {
    "ass:DV3 eq:DV3 ass:kernel": "the drift condition of the kernels",
    "remark:dv3_finite_space": "the same on finite spaces, where it holds by itself",
}
