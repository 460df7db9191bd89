"""Chains on devices and in processes: where they are, how they move, and agreement."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from numpy.typing import ArrayLike

from srmc.types import PyTree

T = TypeVar("T")


def of_all(values: ArrayLike) -> np.ndarray:
    """The same numbers from every process, (process, ...); each process must call it."""
    mine = np.asarray(values, np.int32)
    if jax.process_count() == 1:
        return mine[None]
    return np.asarray(multihost_utils.process_allgather(mine))


def together(action: Callable[[], T]) -> T:
    """What the action returns; if it fails in one process, an error in every process."""
    error: Exception | None = None
    try:
        found = action()
    except Exception as failure:
        error = failure
    failed = np.flatnonzero(of_all(error is not None))
    if error is not None:
        raise error
    if len(failed):
        raise RuntimeError(
            f"process {', '.join(map(str, failed))} failed, so that no process goes on; its own "
            "error says why"
        )
    return found


def latest_common(mine: list[int]) -> int | None:
    """The largest number that every process lists, or None. Each lists at most two."""
    padded = [*mine, -1, -1][:2]
    common = set.intersection(*(set(row) for row in of_all(padded).tolist())) - {-1}
    return max(common, default=None)


DEVICES = "devices"  # the name of the mesh axis over which chains are spread
NUM_BLOCKS = 8


class Layout(NamedTuple):
    """How chains are placed on devices: in blocks, each of which is one program.

    Chains that share a history form one block, spread over all devices. Other chains form up to 8
    blocks of equal size, each on one device. Compilers round differently for different numbers of
    chains, so that only with fixed blocks do draws not depend on the number of devices. If the data
    of the model are sharded, all chains form one block on every device, and XLA adds up the parts
    of the log density.
    """

    num_chains: int
    chains: list[np.ndarray]  # the chains of each block that this process holds
    places: list[Sharding]

    def spread(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """Put host arrays of all chains on the devices, block by block."""
        host = jax.tree.map(np.asarray, tree)
        cut = lambda mine: jax.tree.map(lambda x: x[mine], host)
        return self.spread_mine([cut(mine) for mine in self.chains])

    def spread_mine(self, blocks: list[PyTree[Any]]) -> list[PyTree[Any]]:
        """Put host arrays of this process's chains on the devices, block by block."""

        def put(block: PyTree[Any], place: Sharding) -> PyTree[Any]:
            if isinstance(place, SingleDeviceSharding):
                return jax.device_put(block, place)
            whole = lambda x: (self.num_chains, *x.shape[1:])
            make = jax.make_array_from_process_local_data
            return jax.tree.map(lambda x: make(place, x, whole(x)), block)

        return [put(*pair) for pair in zip(blocks, self.places, strict=True)]

    def share(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """Put what all chains share on the devices, for each block; once per place."""

        def replicate(x: Any, place: NamedSharding) -> Any:
            if _is_sharded(x):
                return x
            everywhere = NamedSharding(place.mesh, PartitionSpec())
            if jax.process_count() == 1:
                return jax.device_put(x, everywhere)
            x = np.asarray(x, jax.dtypes.canonicalize_dtype(np.result_type(x)))
            return jax.make_array_from_process_local_data(everywhere, x, x.shape)

        def put(place: Sharding) -> PyTree[Any]:
            if not isinstance(place, NamedSharding):
                return jax.device_put(tree, place)
            return jax.tree.map(lambda x: replicate(x, place), tree)

        found = {place: put(place) for place in dict.fromkeys(self.places)}
        return [found[place] for place in self.places]

    def collect(self, blocks: list[PyTree[Any]], axis: int = 0) -> PyTree[Any]:
        """Fetch the arrays of this process's chains to the host; `axis` is the axis of chains."""
        parts = [jax.tree.map(_fetch, block) for block in blocks]
        return jax.tree.map(lambda *x: np.concatenate(x, axis=axis), *parts)

    def cut(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """Split what `collect` joined into blocks again."""
        ends = np.cumsum([len(mine) for mine in self.chains])[:-1]
        split = [np.split(x, ends) for x in jax.tree.leaves(tree)]
        structure = jax.tree.structure(tree)
        return [jax.tree.unflatten(structure, leaves) for leaves in zip(*split, strict=True)]

    def of_all_processes(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Gather the arrays of all chains from all processes; chains are the first axis."""
        if jax.process_count() == 1:
            return tree
        gather = lambda x: multihost_utils.process_allgather(np.asarray(x), tiled=True)
        order = np.argsort(gather(np.concatenate(self.chains)))
        return jax.tree.map(lambda x: gather(x)[order], tree)


def compiled(
    function: Callable[..., Any], place: Sharding, in_axes: Any, out_axes: Any
) -> Callable[..., Any]:
    """Compile a function for the chains of a block; on several devices, each computes its own.

    The axes say where the chains are in each argument and result; None if all share it.
    """
    if not isinstance(place, NamedSharding):
        return jax.jit(function, compiler_options=in_order())
    if not place.spec:  # the data are spread, and the chains are not
        return jax.jit(function, out_shardings=place, compiler_options=in_order())
    names = lambda n: PartitionSpec() if n is None else PartitionSpec(*[None] * n, DEVICES)
    in_specs, out_specs = (
        jax.tree.map(names, axes, is_leaf=lambda x: x is None) for axes in (in_axes, out_axes)
    )
    options: Any = {"mesh": place.mesh, "in_specs": in_specs, "out_specs": out_specs}
    spread = jax.shard_map(function, **options, check_vma=False)
    return jax.jit(spread, compiler_options=in_order())


@contextlib.contextmanager
def at_once(
    program: Callable[..., T], blocks: Sequence[tuple[Any, ...]], places: Sequence[Sharding]
) -> Iterator[Callable[[Sequence[tuple[Any, ...]]], list[T]]]:
    """A function that runs a program for all blocks at the same time, each at its place.

    A device runs the calls of one thread one after the other, so that each block has a thread of
    its own. The program is compiled here, once per place, since a new thread does not know the
    settings of this one, such as `jax.enable_x64`.
    """
    ready: dict[Sharding, Callable[..., T]] = {}
    for place, block in zip(places, blocks, strict=True):
        if place not in ready:
            ready[place] = program.lower(*block).compile()  # type: ignore[attr-defined]

    def run(place: Sharding, block: tuple[Any, ...]) -> T:
        out: T = jax.block_until_ready(ready[place](*block))
        return out

    if len(blocks) == 1:
        yield lambda blocks: [run(places[0], blocks[0])]
        return
    with ThreadPoolExecutor(len(blocks)) as threads:
        yield lambda blocks: list(threads.map(run, places, blocks))


@functools.cache
def in_order() -> dict[str, Any]:
    """Compiler options that run the parts of a program one after the other, where supported.

    XLA on a CPU (jaxlib 0.10) runs independent parts of a large program at the same time, and can
    lose one of them and wait for it forever.
    """
    options = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except Exception:  # from a backend or a version that does not know the option
        return {}
    return options


def mesh_of(data: PyTree[Any]) -> Mesh | None:
    """The devices over which the data of a model are sharded, if they are."""
    meshes = {x.sharding.mesh for x in jax.tree.leaves(data) if _is_sharded(x)}
    if len(meshes) > 1:
        raise ValueError(f"the data of a model must be on one mesh of devices, got {len(meshes)}")
    if meshes and jax.process_count() > 1:
        raise ValueError("sharded data need all their devices in one process")
    return meshes.pop() if meshes else None


def _is_sharded(x: Any) -> bool:
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return isinstance(x.sharding, NamedSharding) and len(x.sharding.device_set) > 1


def lay_out(num_chains: int, shared: bool, data: PyTree[Any] = ()) -> Layout:
    """The layout of chains on the available devices; `shared` if they share a history.

    `data` are the arrays of the log density.
    """
    if (mesh := mesh_of(data)) is not None:
        return Layout(num_chains, [np.arange(num_chains)], [NamedSharding(mesh, PartitionSpec())])
    devices = jax.devices()
    sizes = [n for n in range(1, num_chains + 1) if num_chains % n == 0]
    me = jax.process_index()
    if shared:
        used = max(n for n in sizes if n <= len(devices))
        if jax.process_count() > 1 and used < len(devices):
            raise ValueError(
                f"num_chains must be a multiple of the {len(devices)} devices of all processes, "
                f"got {num_chains}"
            )
        mesh = Mesh(np.array(devices[:used]), (DEVICES,))
        each = np.arange(num_chains).reshape(used, -1)
        mine = each[[d.process_index == me for d in devices[:used]]].reshape(-1)
        return Layout(num_chains, [mine], [NamedSharding(mesh, PartitionSpec(DEVICES))])
    block = next(n for n in sizes if n * NUM_BLOCKS >= num_chains)
    blocks = np.arange(num_chains).reshape(-1, block)
    if len(blocks) % jax.process_count():
        raise ValueError(
            f"num_chains must be a multiple of the {jax.process_count()} processes, in "
            f"{NUM_BLOCKS} equal blocks or fewer, got {num_chains}"
        )
    owners = [devices[k * len(devices) // len(blocks)] for k in range(len(blocks))]
    here = [k for k, device in enumerate(owners) if device.process_index == me]
    return Layout(
        num_chains, [blocks[k] for k in here], [SingleDeviceSharding(owners[k]) for k in here]
    )


def _fetch(x: Any) -> np.ndarray:
    if x.is_fully_addressable:
        return np.asarray(x)
    shards = sorted(x.addressable_shards, key=lambda s: tuple(i.start or 0 for i in s.index))
    axis = next(k for k, i in enumerate(shards[0].index) if i != slice(None))
    return np.concatenate([np.asarray(s.data) for s in shards], axis=axis)
