"""Eight schools in NumPyro: constraints handled, draws in the model's own names."""

import numpy as np
import numpyro
from numpyro import distributions as dist

import srmc

Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(sigma)):
        raw = numpyro.sample("raw", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * raw)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


if __name__ == "__main__":
    result = srmc.sample(eight_schools, data={"sigma": SIGMA, "y": Y}, num_samples=2000)
    print(result.summary())
    print("posteriordb: mu 4.411 ± 0.033, tau 3.602 ± 0.032")
