"""A diagonal metric for kernels that have none."""

import inspect
from collections.abc import Callable
from typing import Any

from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc.repel.kernel import as_algorithm, kernel_name
from srmc.types import Array, Float, KernelInfo, KernelState, LogDensity, Position, PRNGKey


def rescaled(
    algorithm: Callable[..., SamplingAlgorithm], scale: Float[Array, " d"]
) -> Callable[..., SamplingAlgorithm]:
    """The algorithm in the coordinates x / scale, with `scale` over the flattened position."""

    def times(x: Position, power: int) -> Position:
        flat, unravel = ravel_pytree(x)
        if scale.shape not in ((), flat.shape):
            raise ValueError(
                f"scale must be a number or a vector of {flat.size} numbers, one for each "
                f"coordinate, got shape {scale.shape}"
            )
        return unravel(flat * scale.astype(flat.dtype) ** power)

    def change(state: KernelState, power: int) -> KernelState:
        new = {"position": times(state.position, power)}
        if hasattr(state, "logdensity_grad"):
            new["logdensity_grad"] = times(state.logdensity_grad, -power)
        return state._replace(**new)

    def build(logdensity_fn: LogDensity, *args: Any, **kwargs: Any) -> SamplingAlgorithm:
        inner = algorithm(lambda z: logdensity_fn(times(z, 1)), *args, **kwargs)
        inner = as_algorithm(kernel_name(inspect.unwrap(algorithm)), inner)

        def init(position: Position, rng_key: PRNGKey | None = None) -> KernelState:
            return change(inner.init(times(position, -1), rng_key), 1)

        def step(rng_key: PRNGKey, state: KernelState) -> tuple[KernelState, KernelInfo]:
            state, info = inner.step(rng_key, change(state, -1))
            return change(state, 1), info

        return SamplingAlgorithm(init, step)

    build.__wrapped__ = algorithm  # type: ignore[attr-defined]
    return build
