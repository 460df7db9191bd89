"""Every constant of the tuning, with the experiment that chose it or the reason for it.

"The study" is `srmc bench noharm`: errors of repelled kernels relative to plain ones
on fourteen targets. `srmc bench rule` measures what changes if a constant is halved or doubled.
"""

# The strength and the gain.

ALPHA = 10.0
"""Strength of "auto" on continuous spaces. Repellence reduces the part of a squared error that the
features explain to 1 / (1 + alpha)^2, which is less than 1% here; what the last window of the
history has not seen is larger, so that more strength adds little (docs/explanation/tuning.md)."""

DISCRETE_ALPHA = 30.0
"""Strength of "auto" on discrete spaces, where features are bounded. On the 4x4 Ising model of
`srmc bench discrete`, errors fall until alpha reaches 20 to 100."""

RHO = 0.8
"""Exponent of the gain. The limit theorem for plain averages needs rho < 1; see
docs/explanation/theory.md. In `srmc reproduce rho`, 0.6 and 0.8 do equally well under MALA, and
both do better than 1."""

TOLERANCE = 0.1
"""Squared bias that the loop may add to a second moment, relative to its variance. It determines
the rate of the loop; see docs/explanation/tuning.md. Halved or doubled, errors of means change by
up to 25% one way and those of second moments by up to 6%, often the other way
(docs/evidence/rule.md)."""

DISCRETE_TOLERANCE = 5 * TOLERANCE
"""The same on discrete spaces, where features are bounded and the bias is smaller than the
derivation for a Gaussian has it; the factor is a guess."""

STEADY = 0.05
"""Bound on the rate times the mean autocorrelation time of the features on discrete spaces, where a
chain needs time to follow its surrogate."""

LAG = 0.5
"""Bound on the rate times the autocorrelation time of the slowest direction on discrete spaces,
which a chain that lags behind its surrogate needs. A guess between 0.25 and 1, both of which were
stable in short runs on the cold 4x4 Ising model of `srmc bench discrete`."""

FASTEST = 0.5
"""Bound on the rate of the loop, relative to one over the top eigenvalue of its features: a
quarter of the limit of stability, which is 2."""

LARGEST_GAIN = 0.5
"""Bound on gamma (1 + alpha) where the history is thinned, for the same reason."""

# Which features act.

WORTH = 3.0
"""Repellence stays off unless the share of the error that the scores explain exceeds this many
times what thinning the history adds. It is a margin for the error of both estimates."""

COUPLED = 0.3
"""Share of the error of the covariances that products must explain for linear maps to couple
coordinates. In the study they explain 0.03 on the funnel, 0.05 on the banana and 0.22 on centred
eight schools, and 0.67 or more on all other targets with light tails. Halved or doubled, it changes
nothing on eight schools, the banana and the funnel (docs/evidence/rule.md)."""

THINNED = 0.3
"""Relative variance added by thinning from which on a feature is left out: from there on thinning
adds a third of what the feature could remove at best."""

MISTAKES = 1e-5
"""Probability of finding by chance that the mean score is not 0: one run in 100,000."""

CROWDED = 0.3
"""Bound on the rate of d^2 linear features times d autocorrelation times: their noise adds up over
d entries per direction, and must stay below what they remove."""

# The guard.

HOT = 3.0
"""The guard lowers alpha at this many times the expected exponent scale, which a loop that behaves
as intended rarely reaches."""

HOT_AT_LEAST = 0.3
"""The guard never lowers alpha below this exponent scale, which is mild on any target."""

RUNAWAY = 4.0
"""The guard keeps the measured rate of the loop below this many times the intended one: the loop is
stable up to 2 / FASTEST = 4 times the largest rate that is intended."""

CLIPPED = 100.0
"""Features are clipped at this many times their root mean square: a chain that leaves the region
seen in warm-up must not fill the history in a few steps."""

# Sizes.

FULL_UP_TO = 64
"""Dimensions up to which linear maps have all d^2 entries, and the cost of a step grows as d^2;
beyond, there are only scalings."""

DENSE_UP_TO = 256
"""Dimensions up to which coordinates are whitened by a matrix; beyond, no matrix is d x d."""

RIDGE = 1e-2
"""Ridge of the whitening, relative to the variances, when there are far fewer draws than
dimensions; it is half of this for as many draws as dimensions."""

SLOW = 0.15
"""A mode of the chain is slow if its loss of correlation per step is below this share of the median
loss. Chains on isotropic Gaussians have no such mode; MALA on gaussian-200 does."""

NUM_BATCHES = 16
"""Batches per chain for long-run variances in warm-up: about the root of the 500 late draws of a
usual warm-up, the usual choice for batch means."""

NUM_PILOTS = 32
"""Chains that are tuned; further chains follow with the parameters found. The average metric of so
many chains has a sixth of the error of one."""

WARMUP_NUMBERS = 2**25
"""Numbers kept of a continuous warm-up for measuring: 128 MB in single precision."""

DISCRETE_WARMUP_NUMBERS = 2**24
"""The same on discrete spaces, where features are kept with the states."""

FEATURE_NUMBERS = 2**26
"""Bound on the numbers that a run keeps as features, for its standard errors."""

FEATURES_PER_DRAW = 256
"""Features per draw up to which they are kept; a regression on more would fit noise."""

# Warm-up.

UNADJUSTED_ACCEPTANCE = 0.95
"""ULA and ULD accept everything. They use the step size at which their adjusted counterparts rarely
reject, so that their bias is small."""

INTEGRATION_STEPS = 10
"""Default number of leapfrog steps of HMC."""

SCALE_DRAWS = 64
"""Approximate number of draws per chain that are kept of the first quarter of warm-up; the scores
of the later half of them determine the scale of each coordinate."""

MEASURED_DRAWS = 128
"""Draws per chain whose scores are evaluated to measure the loop, for kernels that cache none."""

# The cost of repellence.

FEEDBACK_COST = 20
"""The score of the draw is evaluated once per this many gradients of the kernel, which costs 5%
more. Kernels with five or more gradients per step evaluate it at every step, which costs at most
20% more."""

CHEAP_STEP = 5
"""Gradients per step below which a kernel counts as cheap in this sense."""

THINNING = (20, 200)
"""Bounds on the number of steps per update of MH's history, all of whose scores are extra cost."""

DISCRETE_THINNING = 0.3
"""Steps per update of the history on discrete spaces, as a share of the mean autocorrelation time
of the features, which cost as much as a step or several. In short runs, 0.5 left more error than
0.3 for GWG on the 4x4 Ising model; other values were not compared."""

DISCRETE_UPDATES = 100
"""Updates of the history that a run has at least, however slow its features are."""

THINNING_TIMES = 0.25
"""Within these bounds, this number of steps is the given share of the autocorrelation time of the
fastest direction."""

# The steps of DLP: its proposal weighs a change by exp(-1 / (2 step)), which is 0 at the first and
# 1 at the second of these, to single precision.
DLP_STEPS = (5e-3, 1e7)

DLMC_STEPS = (1e-6, 1e6)
"""Bounds on the time of DLMC, in which next to no site moves, or all forget where they were."""

PATH_START = 4.0
"""Path length with which warm-up begins: a few sites, which most targets accept."""
