"""Every constant of rebalancing, with the reason for it."""

LEVELS = 101
"""Knots of each marginal distribution function, from the 2.5% to the 97.5% quantile: nearer to the
tails few draws say where a quantile is."""

OUTERMOST = 0.025
"""The level of the first knot, and 1 minus that of the last."""

FAR = 3.0
"""Standard deviations beyond which fields are constant, so that far draws move rigidly."""

RIDGES = (1e-3, 1.0, 10.0, 100.0)
"""Ridges of the regressions, in draws: features have variance 1, and Gram matrices grow with n."""

FOLDS = 5
"""Parts of the run in cross-validation: contiguous, to be longer than the memory of a chain."""

FEATURES = 700
"""Features in a regression at most; a regression on more takes seconds. It is 35 dimensions with
all linear maps, 10 with products, and 350 with scalings."""

SAMPLED = 32
"""Second moments by which the choice for all of them is made."""

MANY = 256
"""Dimensions beyond which the second round of matching is the last, and of first order."""

LARGEST = 1024
"""Dimensions up to which covariances are matched; beyond, no matrix is d x d."""

ROUNDS = 3
"""Rounds of matching: each map undoes a little of what the other did."""

CLOSEST = 0.5
"""A draw's displacement in one round is at most this many standard deviations."""

FEWEST = 4
"""Draws per chain, below which nothing is done."""

ROWS = 65_536
"""Rows of a regression at most: of more draws, averages of as many successive ones are regressed,
which keeps the means. With 700 features, that takes a gigabyte."""
