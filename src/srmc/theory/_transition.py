"""Exact transition matrices of the samplers on discrete spaces, from their own probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import as_numbers, check_count
from srmc.types import Array, ArrayLike, Float, Int, PRNGKey, Scalar


def transition_matrix(
    algorithm: SamplingAlgorithm,
    states: Float[np.ndarray, "state ..."],
    theta: ArrayLike | None = None,
    *,
    num_proposals: int = 4096,
    seed: int = 0,
) -> Float[np.ndarray, "state state"]:
    """Return the matrix of a sampler such as `srmc.gwg(f, space, ...)` with its history held.

    `states` are all states of the space, such as `space.all_states(shape)`. A kernel tells the
    probabilities of each proposal and of its acceptance; `num_proposals` are made from each state
    until none is missing, which their sum tells. `theta` is the history, 0 if not given; give the
    sampler `alpha=srmc.fixed(alpha)` to have it repelled. Kernels that do not propose states one
    by one, `srmc.gibbs`, `srmc.path_auxiliary` and `srmc.gwg` with several sites, have no such
    probabilities.
    """
    check_count("num_proposals", num_proposals)
    if not callable(getattr(algorithm, "step", None)):
        raise TypeError(f"algorithm must be a sampler, such as srmc.gwg(...), got {algorithm!r}")
    every = jnp.asarray(as_numbers("states", states), float)
    if every.ndim < 2 or not every.size:
        raise ValueError(f"states must be (state, ...), not empty, got shape {every.shape}")
    try:
        algorithm.init(every[0])
    except (TypeError, ValueError) as error:
        raise type(error)(f"states must be those of the sampler's space, but {error}") from None
    flat = every.reshape(len(every), -1)

    def propose(x: Array, key: PRNGKey) -> tuple[Int[Array, ""], Scalar, Scalar]:
        more = {} if theta is None else {"theta": jnp.asarray(theta, x.dtype)}
        info = algorithm.step(key, algorithm.init(x, **more))[1]
        info = getattr(info, "inner_info", info)
        to = jnp.argmin(jnp.sum(jnp.abs(flat - info.proposal.reshape(1, -1)), axis=1))
        return to, info.log_proposal, info.acceptance_rate

    keys = jax.random.split(jax.random.key(seed), num_proposals)
    program = jax.jit(jax.vmap(jax.vmap(propose, (None, 0)), (0, None)))
    to, log_q, acceptance = (np.asarray(x) for x in program(every, keys))
    proposal = np.zeros((len(every), len(every)))
    accepted = np.zeros_like(proposal)
    source = np.broadcast_to(np.arange(len(every))[:, None], to.shape)
    proposal[source, to] = np.exp(log_q)
    accepted[source, to] = acceptance
    missing = float(np.max(np.abs(1 - proposal.sum(axis=1))))
    if missing > 1e-3:
        raise ValueError(
            f"num_proposals must be large enough to see all moves, got {num_proposals}: the "
            f"proposals from a state have probabilities whose sum misses 1 by {missing:.2g}"
        )
    matrix: np.ndarray = proposal * accepted
    np.fill_diagonal(matrix, 0.0)
    matrix += np.diag(np.maximum(1 - matrix.sum(axis=1), 0))
    matrix /= matrix.sum(axis=1, keepdims=True)  # which is 1 up to rounding
    return matrix
