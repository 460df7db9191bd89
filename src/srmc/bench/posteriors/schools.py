"""Eight schools, non-centred and centred."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import srmc
from srmc.bench.posteriors.base import (
    Database,
    Parameters,
    Posterior,
    Vector,
    of_target,
    with_reference,
)


def eight_schools(centred: bool = False) -> Posterior:
    """The library's target, which holds the data; the numbers are log tau, mu and the effects."""
    target = srmc.targets.eight_schools(centred)
    posterior = of_target(target.name, target)

    def constrain(x: Vector) -> Parameters:
        tau = jnp.exp(x[0])
        return {"theta": x[2:] if centred else x[1] + tau * x[2:], "mu": x[1], "tau": tau}

    def unconstrain(p: Parameters) -> Vector:
        effects = p["theta"] if centred else (p["theta"] - p["mu"]) / p["tau"]
        return jnp.concatenate([jnp.stack([jnp.log(p["tau"]), p["mu"]]), effects])

    return dataclasses.replace(posterior, constrain=constrain, unconstrain=unconstrain)


def eight_schools_of_posteriordb(database: Database) -> Posterior:
    """The same posterior, with reference draws; refused if the data are others."""
    data = database.data("eight_schools")
    if not np.array_equal(data["y"], [28, 8, -3, 7, -1, 1, 18, 12]):
        raise ValueError(f"eight_schools must have the effects of Rubin (1981), got {data['y']}")
    posterior = dataclasses.replace(eight_schools(), name="eight_schools-eight_schools_noncentered")
    return with_reference(posterior, database)
