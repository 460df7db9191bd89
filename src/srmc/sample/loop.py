"""The loop: many chains in lockstep, in chunks that take a given time."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.base import SamplingAlgorithm
from jax.sharding import Sharding

from srmc._programs import remembered
from srmc.repel.kernel import caches
from srmc.repel.state import RepelInfo, RepelState
from srmc.sample.devices import DEVICES, Layout, at_once, compiled, of_all
from srmc.types import Array, Bool, Float, Int, Position, PRNGKey, PyTree

CHAINS = "chains"  # the name of the vmap axis over chains
ALL_CHAINS = (CHAINS, DEVICES)  # the axes of a history shared over all devices
LARGEST_CHUNK = 2**24  # largest number of stored values in a chunk

Carry = list[PyTree[Array]]  # what is carried from step to step, on the devices, block by block


class Recorded(NamedTuple):
    """The record of a draw: its values by name, values of the base chain, and features."""

    values: dict[str, Array]
    base: dict[str, Array] | None = None
    features: PyTree[Array] = None


class Statistics(NamedTuple):
    """Statistics of a draw, or with thinning of all steps since the last one; see `RepelInfo`.

    `lp` is the log density of the base chain, of the target that the kernel sees; `energy` is the
    Hamiltonian at the end of a step of HMC or NUTS. They are NaN if the kernel knows none.
    """

    acceptance_rate: Float[Array, "*chain"]
    diverging: Bool[Array, "*chain"]
    alpha: Float[Array, "*chain"]
    theta_norm: Float[Array, "*chain"]
    exponent: Float[Array, "*chain"]
    gradients: Int[Array, "*chain"]
    hvps: Int[Array, "*chain"]
    is_finite: Bool[Array, "*chain"]
    is_hot: Bool[Array, "*chain"]
    is_stable: Bool[Array, "*chain"]
    gain: Float[Array, "*chain"]
    lp: Float[Array, "*chain"]
    energy: Float[Array, "*chain"]


def dtypes() -> dict[str, np.dtype[Any]]:
    """The types of the statistics, in the current precision of JAX."""
    real, whole, truth = (jnp.zeros((), t).dtype for t in (float, int, bool))
    types = {"gradients": whole, "hvps": whole, "diverging": truth}
    types |= dict.fromkeys(("is_finite", "is_hot", "is_stable"), truth)
    return {name: types.get(name, real) for name in Statistics._fields}


class Task(NamedTuple):
    """What is run: an algorithm, its key, the layout of its chains, and what is kept of a draw."""

    # From parameters to the algorithm. They are arguments of the compiled program, which is the
    # same for all of them.
    build: Callable[[Any], SamplingAlgorithm]
    parameters: PyTree[Any]
    rng_key: PRNGKey
    layout: Layout
    # From the parameters and a state to what is kept of it.
    record: Callable[[Any, RepelState], Any]
    thin: int = 1  # number of steps per draw

    def shape_of(self, states: Carry) -> Any:
        """The shapes of what is kept of a draw."""
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states[0])
        leaves, structure = jax.tree.flatten((jax.tree.map(_shape_of, self.parameters), one))
        return _recorded(self.record, structure, tuple(leaves))


def _shape_of(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))


@remembered
def _recorded(
    record: Callable[[Any, RepelState], Any], structure: Any, leaves: tuple[Any, ...]
) -> Any:
    """The shapes of the record of a state."""
    return jax.eval_shape(record, *jax.tree.unflatten(structure, leaves))


class Parameters(NamedTuple):
    """The parameters of a task: parameters of the kernel, and data of the compiled functions."""

    kernel: PyTree[Any]
    # The data of the log density, and of the values of a draw by name; see `parted`.
    density: PyTree[Any] = ()
    values: PyTree[Any] = ()
    loop: PyTree[Any] = ()  # what the tuner measured of the loop that repels


class Chunk(NamedTuple):
    """A chunk of a run, on the host."""

    done: int  # number of draws per chain up to its end
    # What was kept of it, (draw, chain, ...).
    recorded: Any
    stats: Statistics
    carry: Carry  # what the next chunk starts from


def start(task: Task, rng_key: PRNGKey, positions: Position) -> Carry:
    """The initial states of the chains, on the devices."""
    keys = jax.random.key_data(jax.random.split(rng_key, task.layout.num_chains))
    program = _init_program(task.build, task.layout.places[0])
    blocks = task.layout.spread((positions, keys)), task.layout.share(task.parameters)
    return [program(part, own) for part, own in zip(*blocks, strict=True)]


@remembered
def _init_program(
    build: Callable[[Any], SamplingAlgorithm], place: Sharding
) -> Callable[..., RepelState]:
    wrap = jax.vmap(jax.random.wrap_key_data)
    init = lambda pair, own: jax.vmap(build(own).init)(pair[0], wrap(pair[1]))
    return compiled(init, place, (0, None), 0)


def run(
    algorithm: SamplingAlgorithm,
    rng_key: PRNGKey,
    states: RepelState,
    num_draws: int,
    *,
    record: Callable[[RepelState], Any] = lambda state: state.position,
    thin: int = 1,
) -> tuple[RepelState, Any, Statistics]:
    """Run chains in one program; return the last states, what was recorded, and statistics.

    `states` have a leading axis of chains; what is recorded has axes (draw, chain, ...).
    `srmc.sample` does the same chunk by chunk. This function can be traced.
    """
    one_draw = drawing(algorithm, record, thin)
    keys = jax.random.key_data(jax.random.split(rng_key, len(states.step)))

    def one(states: RepelState, n: Array) -> tuple[RepelState, tuple[Any, Statistics]]:
        states, recorded, stats = one_draw(states, n, keys)
        return states, (recorded, stats)

    states, (recorded, stats) = jax.lax.scan(one, states, jnp.arange(num_draws))
    return states, recorded, stats


def chain_keys(task: Task) -> Array:
    """The keys of all chains, as plain numbers."""
    return jax.random.key_data(jax.random.split(task.rng_key, task.layout.num_chains))


def chunks(
    task: Task,
    states: Carry,
    num_draws: int,
    *,
    first: int = 0,
    seconds: float = 0.5,
    room: int | None = None,
) -> Iterator[Chunk]:
    """Make draws `first` to `num_draws`, in chunks of about `seconds`.

    The program has room for a chunk of `room` draws, or of all, if memory allows.
    """
    size = sum(x.size for x in jax.tree.leaves(task.shape_of(states)))
    capacity = max(1, LARGEST_CHUNK // (task.layout.num_chains * size))
    room = num_draws - first if room is None else room
    capacity = max(1, min(capacity, 1 << (room - 1).bit_length()))
    program = _fill_program(task.build, task.record, task.thin, capacity, task.layout.places[0])
    pace = Pace(first, num_draws, seconds, capacity)
    for done, count, carry, out in paced(program, task, states, pace):
        recorded, stats = task.layout.collect(out, axis=1)
        # Copied, since a slice would keep the whole buffer alive.
        recorded, stats = jax.tree.map(lambda x, n=count: x[:n].copy(), (recorded, stats))
        yield Chunk(done, recorded, stats, carry)


@remembered
def _fill_program(
    build: Callable[[Any], SamplingAlgorithm],
    record: Callable[[Any, RepelState], Any],
    thin: int,
    capacity: int,
    place: Sharding,
) -> Callable[..., tuple[Any, Any]]:
    """The program that makes up to `capacity` draws."""

    def fill(
        states: RepelState, keys: Array, first: Array, count: Array, parameters: PyTree[Any]
    ) -> tuple[RepelState, PyTree[Array]]:
        of_state = functools.partial(record, parameters)
        one_draw = drawing(build(parameters), of_state, thin)
        recorded = jax.eval_shape(jax.vmap(of_state), states)
        chains = (capacity, *states.step.shape)
        stats = Statistics(**{name: jnp.zeros(chains, t) for name, t in dtypes().items()})
        out = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), recorded), stats

        def body(i: Array, carry: tuple[RepelState, Any]) -> tuple[RepelState, Any]:
            states, out = carry
            states, *new = one_draw(states, first + i, keys)
            return states, jax.tree.map(lambda o, x: o.at[i].set(x), out, tuple(new))

        return jax.lax.fori_loop(0, count, body, (states, out))

    return compiled(fill, place, (0, 0, None, None, None), (0, 1))


class Pace(NamedTuple):
    """How a run from draw `first` to draw `last` is cut into chunks of about `seconds`.

    A chunk has at most `most` draws, and does not extend beyond the next multiple of `boundary`.
    """

    first: int
    last: int
    seconds: float
    most: int
    boundary: int | None = None


def paced(
    program: Callable[..., tuple[Any, Any]], task: Task, carry: Carry, pace: Pace
) -> Iterator[tuple[int, int, Carry, list[Any]]]:
    """Call the program chunk by chunk; yield draws done, draws in the chunk, carry and output.

    All processes run chunks of the same length, chosen for the slowest.
    """
    layout = task.layout
    keys, parameters = layout.spread(chain_keys(task)), layout.share(task.parameters)

    def blocks(carry: Carry, done: int, count: int) -> list[tuple[Any, ...]]:
        span = np.int32(done), np.int32(count)
        parts = zip(carry, keys, parameters, strict=True)
        return [(part, key, *span, own) for part, key, own in parts]

    done, count = pace.first, 1
    if done >= pace.last:
        return
    with at_once(program, blocks(carry, done, count), layout.places) as run:
        while done < pace.last:
            ends = [pace.last - done, pace.most]
            if pace.boundary is not None:
                ends.append(pace.boundary - done % pace.boundary)
            count = min(count, *ends)
            began = time.perf_counter()
            pairs = run(blocks(carry, done, count))
            speed = count / max(time.perf_counter() - began, 1e-6)
            carry, out = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            done += count
            yield done, count, carry, out
            # The first, short chunk is a poor measure of the speed, so that lengths grow gradually.
            count = max(1, min(int(pace.seconds * speed), 10 * count))
            count = int(of_all(count).min())


def drawing(
    algorithm: SamplingAlgorithm, record: Callable[[RepelState], Any], thin: int
) -> Callable[[RepelState, Array, Array], tuple[RepelState, Any, Statistics]]:
    """A function of states, draw number and keys that makes one draw in every chain."""
    step = jax.vmap(algorithm.step, axis_name=CHAINS)

    def one_step(states: RepelState, n: Array, keys: Array) -> tuple[RepelState, Statistics]:
        fold = lambda data: jax.random.fold_in(jax.random.wrap_key_data(data), n)
        states, info = step(jax.vmap(fold)(keys), states)
        return states, _statistics(states, info)

    def one_draw(states: RepelState, i: Array, keys: Array) -> tuple[RepelState, Any, Statistics]:
        if thin == 1:
            states, stats = one_step(states, i, keys)
        else:
            steps = i * thin + jnp.arange(thin)
            states, stats = jax.lax.scan(lambda s, n: one_step(s, n, keys), states, steps)
            over = {k: _OVER_STEPS.get(k, _last)(x, axis=0) for k, x in stats._asdict().items()}
            stats = Statistics(**over)
        return states, jax.vmap(record)(states), stats

    return one_draw


def _last(x: Array, axis: int) -> Array:
    return jnp.take(x, -1, axis)


# How the statistics of several steps are combined with thinning.
_OVER_STEPS: dict[str, Callable[..., Array]] = {
    "acceptance_rate": jnp.mean,
    "diverging": jnp.any,
    "gradients": jnp.sum,
    "hvps": jnp.sum,
    "is_finite": jnp.all,
    "is_hot": jnp.any,
    "is_stable": jnp.all,
    "gain": jnp.sum,
}


def _statistics(state: RepelState, info: RepelInfo) -> Statistics:
    chains, inner = state.step.shape, info.inner_info
    unknown = jnp.full(chains, jnp.nan)
    found = Statistics(
        acceptance_rate=getattr(inner, "acceptance_rate", unknown),
        diverging=getattr(inner, "is_divergent", jnp.zeros(chains, bool)),
        alpha=state.alpha,
        theta_norm=jax.vmap(optax.tree.norm)(state.theta),
        exponent=info.exponent,
        gradients=info.gradients,
        hvps=info.hvps,
        is_finite=info.is_finite,
        is_hot=info.is_hot,
        is_stable=info.is_stable,
        gain=info.gain,
        lp=state.logdensity if caches(state.inner_state, "logdensity") else unknown,
        energy=_energy(inner) if hasattr(inner, "energy") else unknown,
    )
    types = dtypes()
    return Statistics(**{k: jnp.asarray(x, types[k]) for k, x in found._asdict().items()})


def _energy(info: Any) -> Array:
    """The energy at the end of a step; HMC reports its proposal's, even if rejected."""
    energy: Array = info.energy
    if not hasattr(info, "is_accepted"):
        return energy
    # A proposal is accepted with probability exp(old energy - new energy), if that is below 1.
    return jnp.where(info.is_accepted, energy, energy + jnp.log(info.acceptance_rate))
