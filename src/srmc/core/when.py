"""A conditional that stays one under `vmap`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

PyTree = Any


def when(predicate: jax.Array, function: Callable[[PyTree], PyTree], operand: PyTree) -> PyTree:
    """`function(operand)` where the predicate holds, else `operand`; both of the same structure.

    `lax.cond` under `vmap` computes both branches for every lane. Here the function is skipped
    whenever no lane asks for it, which is what chains in lockstep need.
    """
    # What the function closes over (the user's data, say) becomes an argument, since it may be
    # batched too.
    jaxpr, out_shape = jax.make_jaxpr(function, return_shape=True)(operand)
    structure = jax.tree.structure(out_shape)

    def closed(consts, operand):
        out = jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, consts))(*jax.tree.leaves(operand))
        return jax.tree.unflatten(structure, out)

    return _when(predicate, closed, jaxpr.consts, operand)


def _when(predicate, function, consts, operand):
    @jax.custom_batching.custom_vmap
    def run(predicate, consts, operand):
        return jax.lax.cond(predicate, lambda: function(consts, operand), lambda: operand)

    @run.def_vmap
    def batched(axis_size, in_batched, predicate, consts, operand):
        predicate_batched, consts_batched, operand_batched = in_batched
        operand = jax.tree.map(
            lambda x, b: x if b else jnp.broadcast_to(x, (axis_size, *jnp.shape(x))),
            operand,
            operand_batched,
        )
        const_axes = [0 if b else None for b in consts_batched]
        lanes = jax.vmap(function, in_axes=(const_axes, 0))
        out_batched = jax.tree.map(lambda _: True, operand)
        if not predicate_batched:
            return _when(predicate, lanes, consts, operand), out_batched

        def chosen_lanes(args, operand):
            choose = lambda p, new, old: jax.tree.map(lambda a, b: jnp.where(p, a, b), new, old)
            return jax.vmap(choose)(args[0], lanes(args[1:], operand), operand)

        return _when(jnp.any(predicate), chosen_lanes, [predicate, *consts], operand), out_batched

    return run(predicate, consts, operand)
