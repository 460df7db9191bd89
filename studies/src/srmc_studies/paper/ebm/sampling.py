"""Many chains of one sampler, of which the states are kept at intervals, with their cost."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc.repel import RepelInfo, RepelState
from srmc.types import Array, ArrayLike, Float, PRNGKey, Scalar
from srmc_studies.paper._chains import Plan, compiler_options

States: TypeAlias = Float[np.ndarray, "record chain pixel"]


class Path(NamedTuple):
    """The states of all chains after every so many steps, the first record being the start.

    gradients
        The gradients per chain by each record; a Hessian-vector product counts as two.
    steps
        The steps by each record.
    acceptance
        The average acceptance rate of all steps; NaN if the kernel has none.
    seconds
        Processor time per step of one chain, without compilation.
    """

    states: States
    gradients: Float[np.ndarray, " record"]
    steps: Float[np.ndarray, " record"]
    acceptance: float
    seconds: float

    def until(self, *, steps: float = np.inf, gradients: float = np.inf) -> int:
        """The last record within these steps and gradients, or the first after the start."""
        within = (self.steps <= steps) & (self.gradients <= gradients)
        return max(1, int(np.flatnonzero(within)[-1]))


def follow(
    build: Callable[[Scalar], SamplingAlgorithm],
    strengths: Sequence[float],
    starts: Float[ArrayLike, "chain pixel"],
    rng_key: PRNGKey,
    plan: Plan,
) -> list[Path]:
    """Run `build(alpha)` for each strength from all starts; keep states after each block.

    States of a discrete space are kept as bytes. A chain has the same random numbers under every
    strength.
    """
    starts = jnp.asarray(starts)
    alphas = jnp.asarray(strengths, float)
    keys = jax.random.split(rng_key, len(starts))

    def one(
        algorithm: SamplingAlgorithm, carry: tuple[RepelState, Array, Array], key: PRNGKey
    ) -> tuple[tuple[RepelState, Array, Array], None]:
        state, cost, rate = carry
        state, info = algorithm.step(key, state)
        return (state, cost + info.gradients + info.hvps, rate + _acceptance(info)), None

    def advance(
        alpha: Scalar, state: RepelState, key: PRNGKey, first: Array
    ) -> tuple[RepelState, Array, Array, Array]:
        algorithm = build(alpha)
        begin = state, jnp.zeros((), int), jnp.zeros(())
        each = jax.vmap(lambda n: jax.random.fold_in(key, n))(first + jnp.arange(plan.block))
        (state, cost, rate), _ = jax.lax.scan(lambda c, k: one(algorithm, c, k), begin, each)
        return state, state.position, cost, rate

    def over(function: Callable[..., Any], *axes: tuple[int | None, int | None]) -> Any:
        return jax.vmap(jax.vmap(function, [a[1] for a in axes]), [a[0] for a in axes])

    init = over(lambda alpha, x: build(alpha).init(x), (0, None), (None, 0))
    options = compiler_options(plan.light)
    states = jax.jit(init, compiler_options=options)(alphas, starts)
    advance_all = over(advance, (0, None), (0, 0), (None, 0), (None, None))
    program = jax.jit(advance_all, compiler_options=options)
    compiled = program.lower(alphas, states, keys, 0).compile()
    first = np.broadcast_to(np.asarray(starts), (len(alphas), *starts.shape))
    kept, spent, rates, seconds = [_small(first)], [np.zeros(len(alphas))], [], 0.0
    for n in range(plan.num_blocks):
        began = time.process_time()
        states, positions, cost, rate = compiled(alphas, states, keys, n * plan.block)
        kept.append(_small(np.asarray(positions)))
        seconds += time.process_time() - began
        spent.append(spent[-1] + np.asarray(cost).mean(axis=1))
        rates.append(np.asarray(rate).mean(axis=1) / plan.block)
        plan.on_block(n + 1)
    steps = np.arange(plan.num_blocks + 1.0) * plan.block
    each_step = seconds / (steps[-1] * alphas.size * len(starts))
    gradients, acceptance = np.stack(spent), np.mean(rates, axis=0)
    return [
        Path(
            np.stack([x[k] for x in kept]), gradients[:, k], steps, float(acceptance[k]), each_step
        )
        for k in range(len(alphas))
    ]


def _small(x: np.ndarray) -> np.ndarray:
    """States of 0 and 1 as bytes, others as they are."""
    return x.astype(np.uint8) if np.all((x == 0) | (x == 1)) else np.asarray(x)


def _acceptance(info: RepelInfo) -> Array:
    return jnp.asarray(getattr(info.inner_info, "acceptance_rate", jnp.nan))


class Classified(NamedTuple):
    """What the classifier and the energy say about the states of a path.

    labels, probabilities
        The class of each state, and the probabilities of the classes at some records.
    energies
        The energy -log pi, without its constant, of each state.
    """

    labels: np.ndarray
    energies: np.ndarray
    probabilities: Callable[[int], Float[np.ndarray, "chain cls"]]

    def counts(self, record: int) -> Float[np.ndarray, "chain cls"]:
        """How often each chain was in each class, after the start and by this record."""
        seen = self.labels[1 : record + 1]
        return np.stack([(seen == k).sum(axis=0) for k in range(10)], axis=1).astype(float)


def judge(
    classifier: Callable[[Array], Array],
    logdensity_fn: Callable[[Array], Array],
    shape: tuple[int, ...],
) -> Callable[[Path], Classified]:
    """A function that classifies all states of a path, compiled once for all paths."""
    logits = jax.jit(jax.vmap(lambda x: classifier(x.astype(jnp.float32).reshape(shape))))
    values = jax.jit(jax.vmap(lambda x: logdensity_fn(x.astype(jnp.float32))))

    def classify(path: Path) -> Classified:
        labels = np.stack([np.asarray(logits(x)).argmax(axis=1) for x in path.states])
        energies = np.stack([-np.asarray(values(x)) for x in path.states])
        return Classified(
            labels, energies, lambda n: np.asarray(jax.nn.softmax(logits(path.states[n])))
        )

    return classify
