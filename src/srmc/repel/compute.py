"""A conditional and a sum that are faster than XLA's own."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from srmc.types import Array, Bool, Float

T = TypeVar("T")  # a pytree of arrays


def when(predicate: Bool[Array, ""], function: Callable[[T], T], operand: T) -> T:
    """`function(operand)` where the predicate holds, else `operand`.

    The function must keep the structure, shapes and types of its operand. Under `vmap`,
    `lax.cond` computes both branches for every lane; here the function is skipped whenever no
    lane asks for it, which is the common case for chains in lockstep.
    """
    # The arrays that the function closes over, such as the user's data, may be batched too, so
    # they become arguments.
    jaxpr, out_shape = jax.make_jaxpr(function, return_shape=True)(operand)
    structure = jax.tree.structure(out_shape)

    def closed(consts: list[Array], operand: T) -> T:
        from jax.extend.core import ClosedJaxpr, jaxpr_as_fun  # which takes a while to import

        out = jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, consts))(*jax.tree.leaves(operand))
        return jax.tree.unflatten(structure, out)

    return _when(predicate, closed, jaxpr.consts, operand)


def _when(
    predicate: Bool[Array, ""],
    function: Callable[[list[Array], T], T],
    consts: list[Array],
    operand: T,
) -> T:
    @jax.custom_batching.custom_vmap
    def run(predicate: Bool[Array, ""], consts: list[Array], operand: T) -> T:
        return jax.lax.cond(predicate, lambda: function(consts, operand), lambda: operand)

    @run.def_vmap
    def batched(
        axis_size: int,
        in_batched: list[Any],
        predicate: Bool[Array, "..."],
        consts: list[Array],
        operand: T,
    ) -> tuple[T, Any]:
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

        def chosen_lanes(args: list[Array], operand: T) -> T:
            def choose(p: Bool[Array, ""], new: T, old: T) -> T:
                return jax.tree.map(lambda a, b: jnp.where(p, a, b), new, old)

            return jax.vmap(choose)(args[0], lanes(args[1:], operand), operand)

        return _when(jnp.any(predicate), chosen_lanes, [predicate, *consts], operand), out_batched

    return run(predicate, consts, operand)


def sums(*terms: Array) -> Float[Array, " term"]:
    """The sum of all entries of each array.

    These are products with a vector of ones, in one product if the arrays have one size: on a CPU,
    XLA takes several times as long for reductions.
    """
    rows = [jnp.ravel(term) for term in terms]
    if len({row.size for row in rows}) > 1:
        return jnp.stack([sums(row)[0] for row in rows])
    ones = jnp.ones(rows[0].size, rows[0].dtype)
    return jnp.matmul(jnp.stack(rows), ones, precision=jax.lax.Precision.HIGHEST)
