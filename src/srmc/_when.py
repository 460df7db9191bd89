"""A conditional that stays one under `vmap`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

PyTree = Any


def when(predicate: jax.Array, function: Callable[[PyTree], PyTree], operand: PyTree) -> PyTree:
    """`function(operand)` where the predicate holds, else `operand`; both of the same structure.

    `lax.cond` under `vmap` computes both branches for every lane. Here the function is skipped
    whenever no lane asks for it, which is what chains in lockstep need.
    """

    @jax.custom_batching.custom_vmap
    def run(predicate, operand):
        return jax.lax.cond(predicate, function, lambda x: x, operand)

    @run.def_vmap
    def batched(axis_size, in_batched, predicate, operand):
        predicate_batched, operand_batched = in_batched
        operand = jax.tree.map(
            lambda x, b: x if b else jnp.broadcast_to(x, (axis_size, *x.shape)),
            operand,
            operand_batched,
        )
        out_batched = jax.tree.map(lambda _: True, operand)
        if not predicate_batched:
            return when(predicate, jax.vmap(function), operand), out_batched

        def function_or_same(operand):
            choose = lambda p, new, old: jax.tree.map(lambda a, b: jnp.where(p, a, b), new, old)
            return jax.vmap(choose)(predicate, jax.vmap(function)(operand), operand)

        return when(jnp.any(predicate), function_or_same, operand), out_batched

    return run(predicate, operand)
