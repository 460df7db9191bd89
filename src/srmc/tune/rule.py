"""Every constant of the tuning, with the experiment that chose it or the reason for it.

"The study" is `srmc bench noharm`: errors of repelled over plain kernels on fourteen targets.
"""

# The strength and the gain.

ALPHA = 10.0
"""Strength of "auto" on continuous spaces. Of the part of an error that the features explain,
1 / (1 + alpha)^2 is left. In the study 10 was better than 3 on every target, and 30 was not tried
on all of them."""

DISCRETE_ALPHA = 30.0
"""Strength of "auto" on discrete spaces, where features are bounded. On the 4x4 Ising model of
`srmc bench discrete` errors fall up to 20 to 100 and stay there."""

RHO = 0.8
"""Exponent of the gain. The limit theorem for plain averages needs rho < 1 (docs/theory.md); in
`srmc reproduce rho`, 0.6 to 0.9 differ by less than the standard error."""

TOLERANCE = 0.1
"""Share of a second moment's variance that the loop may add as squared bias. It sets the rate of
the loop, see docs/tuning.md."""

DISCRETE_TOLERANCE = 5 * TOLERANCE
"""The same on discrete spaces. Bounded features leave a fifth of the bias that the Gaussian
derivation charges."""

STEADY = 0.05
"""Bound on rate times autocorrelation time on discrete spaces, where a chain needs time to follow
its surrogate. From 0.1 on, kernels lock in on the cold 4x4 Ising model."""

FASTEST = 0.5
"""Bound on the rate of the loop, relative to one over the top eigenvalue of its features: a
quarter of the limit of stability, which is 2."""

LARGEST_GAIN = 0.5
"""Bound on gamma (1 + alpha), for the same reason, where the history is thinned."""

# What is switched on.

WORTH = 3.0
"""Share of the error that the scores explain, over what thinning the history adds, below which
repellence stays off. At 1, MH on the mixture came out worse than plain in the study."""

COUPLED = 0.3
"""Share of the covariances' error that products must explain before linear maps couple
coordinates. The funnel has 0.1, where coupling does harm; log-concave targets have 0.6 or more."""

THINNED = 0.3
"""Relative variance that thinning may add to a single feature before the feature is left out."""

MISTAKES = 1e-5
"""Probability with which chance alone may make the mean score look different from 0. Of 2,400
Gaussian chains none was mistaken."""

CROWDED = 0.3
"""Bound on the noise of d^2 linear features per direction, relative to the move itself."""

# The guard.

HOT = 3.0
"""The guard lowers alpha at this many times the expected exponent scale."""

HOT_AT_LEAST = 0.3
"""... but never below this exponent scale, which is mild on any target."""

RUNAWAY = 4.0
"""The guard keeps the measured rate of the loop below this many times the intended one."""

CLIPPED = 100.0
"""Features are cut at this many root mean squares: a chain that leaves what warm-up has seen must
not fill the history in a few steps."""

# Sizes.

FULL_UP_TO = 64
"""Dimensions up to which linear maps have all d^2 entries; beyond, only scalings. The cost of a
step grows as d^2."""

DENSE_UP_TO = 256
"""Dimensions up to which coordinates are whitened by a matrix; beyond, nothing is d x d."""

RIDGE = 1e-2
"""Ridge of the whitening, relative to the variances, for as many dimensions as draws."""

SLOW = 0.15
"""A mode of the chain is slow if it loses less than this share of the median loss of correlation
per step. Chains on isotropic Gaussians show no such mode; MALA on gaussian-200 does."""

NUM_BATCHES = 16
"""Batches per chain for long-run variances in warm-up. Fewer are noisy, more are too short."""

NUM_PILOTS = 32
"""Chains that tune; more chains follow with the parameters of these. Step size and metric hardly
improve beyond."""

WARMUP_NUMBERS = 2**25
"""Numbers of a continuous warm-up that are kept to be measured: 128 MB in single precision."""

DISCRETE_WARMUP_NUMBERS = 2**24
"""The same on discrete spaces, where features are kept beside states."""

FEATURE_NUMBERS = 2**26
"""Numbers of features that a run keeps for its standard errors."""

FEATURES_PER_DRAW = 256
"""Features per draw up to which they are kept; a regression on more would fit noise."""

# Warm-up.

ACCEPTANCE = {"mh": 0.234, "mala": 0.574, "hmc": 0.8, "nuts": 0.8, "dlp": 0.574}
"""Acceptance rates to aim at: the theory's optimum for random walks (Roberts, Gelman and Gilks,
1997) and Langevin proposals (Roberts and Rosenthal, 1998), and Stan's choice for HMC and NUTS."""

UNADJUSTED_ACCEPTANCE = 0.95
"""ULA and ULD accept everything. They borrow the step size at which their adjusted siblings
rarely reject, so that their bias is small."""

INTEGRATION_STEPS = 10
"""Leapfrog steps of HMC by default."""

SCALE_DRAWS = 64
"""Draws, about, of which a quarter of warm-up takes scores, to find each coordinate's scale."""

MEASURED_DRAWS = 128
"""Draws per chain that are scored to measure the loop, for kernels that cache no score."""

# The cost of repellence.

FEEDBACK_COST = 20
"""The draw's own score is evaluated once per this many gradients of the kernel: 5% more cost.
Kernels of five gradients per step or more evaluate it at every step: at most 20% more."""

CHEAP_STEP = 5
"""Gradients per step below which a kernel counts as cheap in this sense."""

THINNING = (20, 200)
"""Bounds on the steps per update of MH's history, whose scores are all extra cost."""

THINNING_TIMES = 0.25
"""... which is this share of the autocorrelation time of its fastest direction."""
