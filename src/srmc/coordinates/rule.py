"""The constants of learned coordinates, each with the reason for it."""

CLIP = 8.0
"""Bound on what modulators add to a log scale, which is linear up to 7. Beyond it, a tail that no
draw has seen stays as heavy as it is. On a funnel of scale 3, 7 is 4.7 standard deviations away."""

NO_LIMIT = 20.0
"""A limit of log scales that has no effect, nor any gradient."""

LIMIT = 1.0
"""Where the search for limits of log scales starts, above each log scale."""

SHARE = 4.0
"""A draw's share of the Fisher divergence is bounded softly at this many times the dimension; in
the neck of a funnel, a share is else thousands of times the mean."""

RIDGE = 1e-5
"""Ridge of the weights."""

DAMPING, MOST_DAMPING, FLOOR = 1e-2, 1e6, 1e-2
"""The damping of a first step, in units of the diagonal plus FLOOR; above the most, a fit ends."""

PRODUCTS, PRECISION = 20, 1e-3
"""Bounds on a Gauss-Newton step: products with the matrix, and the squared error that is left."""

ENOUGH = 1e-3
"""A fit ends if a step lowers the divergence by less than this share."""

FULL_UP_TO = 16
"""Dimensions up to which every coordinate may modulate later ones."""

MODULATORS = 3
"""Modulators at most in more dimensions; the hierarchies that were tried need two."""

NUMBERS = 2**16
"""Numbers among the draws that are fitted: with 100 coordinates 655 draws, which determine the
weights far better than needed, since each has 100 scores."""

DRAWS = (128, 1024)
"""Bounds on the draws that are fitted."""

STEPS = (6, 20)
"""Gauss-Newton steps at most, to compare candidates, and for the map that is chosen."""

BETTER = 0.9
"""A further modulator is taken if the held-out divergence falls below this share of what it was."""

PRECISE = 0.01
"""No further modulator is tried once this share of the divergence is left."""

WORTH = 0.5
"""The divergence, whitened, from which on a map is looked for, and by which it must fall. Logistic
regression in ten dimensions has 0.25. Chosen on ten targets; no command varies it yet."""

SHARE_LEFT = 0.5
"""The share of the divergence that a map may leave: one that leaves more is not the geometry of the
posterior. On eight schools in non-centred form 0.8 is left, on centred ones 0.06."""

DENSE_UP_TO = 256
"""Dimensions up to which divergences are compared after whitening by a matrix."""

INNER = 0.9
"""Share of the draws from which a covariance is found, in one of the comparisons."""

SAID = 0.2
"""Least standard deviation of a log scale, or of a location in units of the scale, that is listed
as an effect of a modulator."""

LEAST_DRAWS = 30
"""Draws below which no map is looked for."""
