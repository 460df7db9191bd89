"""What a user brings, turned into a log density with starts and names: a `Problem`."""

from srmc.models.callback import from_stan, from_value_and_grad, stan_density

__all__ = ["from_stan", "from_value_and_grad", "stan_density"]
