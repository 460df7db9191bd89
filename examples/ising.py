"""An Ising model of 12 x 12 spins: Gibbs with gradients, plain and repelled."""

import numpy as np

import srmc

graph = srmc.targets.lattice(12, 12)
field = 0.1 + 0.3 * np.random.default_rng(0).normal(size=144)
target = srmc.targets.ising(graph, coupling=0.2, field=field)

if __name__ == "__main__":
    # Chains that agree know the answer; how far they are apart tells the error of each.
    for alpha in (0.0, "auto"):
        result = srmc.sample(
            target, alpha=alpha, num_chains=16, num_samples=20_000, shared_history=False, thin=20
        )
        means = result.draws["x"].mean(axis=1)  # (chain, site)
        spread = means.std(axis=0, ddof=1).mean()
        print(f"alpha {alpha}: standard error of a site's mean, one chain: {spread:.4f}")
        print(f"  {result.gradients} evaluations, {result.about['seconds']:.0f} s")
