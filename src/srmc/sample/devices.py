"""Spreading chains over devices and processes, and moving their arrays to and from the host."""

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from srmc.types import PyTree

DEVICES = "devices"  # the name of the mesh axis over which chains are spread
NUM_BLOCKS = 8

T = TypeVar("T")


class Layout(NamedTuple):
    """How chains are placed on devices: in blocks, each of which is one program.

    Chains that share a history form one block, spread over all devices. Other chains form up to 8
    blocks of equal size, each on one device. Compilers round differently for different numbers of
    chains, so that only with fixed blocks do draws not depend on the number of devices.
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

        def put(x: np.ndarray, place: Sharding) -> Any:
            if isinstance(place, SingleDeviceSharding):
                return jax.device_put(x, place)
            shape = (self.num_chains, *x.shape[1:])
            return jax.make_array_from_process_local_data(place, x, shape)

        pairs = zip(blocks, self.places, strict=True)
        return [jax.tree.map(lambda x, p=place: put(x, p), block) for block, place in pairs]

    def share(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """Put what all chains share on the devices, block by block."""

        def put(x: Any, place: Sharding) -> Any:
            if not isinstance(place, NamedSharding):
                return jax.device_put(x, place)
            everywhere = NamedSharding(place.mesh, PartitionSpec())
            if jax.process_count() == 1:
                return jax.device_put(x, everywhere)
            x = np.asarray(x, jax.dtypes.canonicalize_dtype(np.result_type(x)))
            return jax.make_array_from_process_local_data(everywhere, x, x.shape)

        return [jax.tree.map(lambda x, p=place: put(x, p), tree) for place in self.places]

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
    names = lambda n: PartitionSpec() if n is None else PartitionSpec(*[None] * n, DEVICES)
    in_specs, out_specs = (
        jax.tree.map(names, axes, is_leaf=lambda x: x is None) for axes in (in_axes, out_axes)
    )
    options: Any = {"mesh": place.mesh, "in_specs": in_specs, "out_specs": out_specs}
    spread = jax.shard_map(function, **options, check_vma=False)
    return jax.jit(spread, compiler_options=in_order())


def at_once(program: Callable[..., T], blocks: Sequence[tuple[Any, ...]]) -> list[T]:
    """The outputs of a program for all blocks, which run at the same time.

    A device runs the calls of one thread one after the other, so that each block has a thread of
    its own. They are compiled here, since a new thread does not know the settings of this one,
    such as `jax.enable_x64`.
    """
    ready = [program.lower(*block).compile() for block in blocks]  # type: ignore[attr-defined]
    run = lambda one, block: jax.block_until_ready(one(*block))
    if len(blocks) == 1:
        return [run(ready[0], blocks[0])]
    with ThreadPoolExecutor(len(blocks)) as threads:
        return list(threads.map(run, ready, blocks))


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


def lay_out(num_chains: int, shared: bool) -> Layout:
    """The layout of chains on the available devices; `shared` if they share a history."""
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
