"""Eight schools in PyMC."""

import numpy as np
import pymc as pm

import srmc

Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

with pm.Model() as eight_schools:
    mu = pm.Normal("mu", 0, 5)
    tau = pm.HalfCauchy("tau", 5)
    raw = pm.Normal("raw", 0, 1, shape=8)
    theta = pm.Deterministic("theta", mu + tau * raw)
    pm.Normal("y", theta, SIGMA, observed=Y)

if __name__ == "__main__":
    result = srmc.sample(eight_schools, num_samples=2000)
    print(result.summary())
    print("posteriordb: mu 4.411 ± 0.033, tau 3.602 ± 0.032")
