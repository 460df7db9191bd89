"""Chains spread over devices and processes, and the way between them and the host."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from srmc._types import PyTree

DEVICES = "devices"  # the name of the mesh axis over which chains are spread
NUM_BLOCKS = 8


class Layout(NamedTuple):
    """Where chains are: in blocks, each of which is one program.

    Chains that share a history are one block, spread over all devices. Others are in up to 8
    blocks of equal size, each on one device: a compiler rounds differently for another number of
    chains, so that only in this way their draws do not depend on the number of devices.
    """

    num_chains: int
    chains: list[np.ndarray]  # those that this process holds of each of its blocks
    places: list[Sharding]

    def spread(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """Host arrays of all chains, put on the devices, block by block."""
        host = jax.tree.map(np.asarray, tree)
        cut = lambda mine: jax.tree.map(lambda x: x[mine], host)
        return self.spread_mine([cut(mine) for mine in self.chains])

    def spread_mine(self, blocks: list[PyTree[Any]]) -> list[PyTree[Any]]:
        """Host arrays of this process's chains, put on the devices, block by block."""

        def put(x: np.ndarray, place: Sharding) -> Any:
            if isinstance(place, SingleDeviceSharding):
                return jax.device_put(x, place)
            shape = (self.num_chains, *x.shape[1:])
            return jax.make_array_from_process_local_data(place, x, shape)

        pairs = zip(blocks, self.places, strict=True)
        return [jax.tree.map(lambda x, p=place: put(x, p), block) for block, place in pairs]

    def collect(self, blocks: list[PyTree[Any]], axis: int = 0) -> PyTree[Any]:
        """This process's chains on the host; `axis` is theirs."""
        parts = [jax.tree.map(_fetch, block) for block in blocks]
        return jax.tree.map(lambda *x: np.concatenate(x, axis=axis), *parts)

    def cut(self, tree: PyTree[Any]) -> list[PyTree[Any]]:
        """What `collect` put together, block by block."""
        ends = np.cumsum([len(mine) for mine in self.chains])[:-1]
        split = [np.split(x, ends) for x in jax.tree.leaves(tree)]
        structure = jax.tree.structure(tree)
        return [jax.tree.unflatten(structure, leaves) for leaves in zip(*split, strict=True)]

    def of_all_processes(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Arrays of all chains from those of this process; chains are the first axis."""
        if jax.process_count() == 1:
            return tree
        gather = lambda x: multihost_utils.process_allgather(np.asarray(x), tiled=True)
        order = np.argsort(gather(np.concatenate(self.chains)))
        return jax.tree.map(lambda x: gather(x)[order], tree)

    def program(
        self, function: Callable[..., Any], in_axes: Any, out_axes: Any
    ) -> Callable[..., Any]:
        """The function, compiled, on a block; where it has several devices, on each with its part.

        An axis is where the chains are in an argument or a result; None for what all share.
        """
        place = self.places[0]
        if not isinstance(place, NamedSharding):
            return jax.jit(function, compiler_options=in_order())
        names = lambda n: PartitionSpec() if n is None else PartitionSpec(*[None] * n, DEVICES)
        in_specs, out_specs = (
            jax.tree.map(names, axes, is_leaf=lambda x: x is None) for axes in (in_axes, out_axes)
        )
        options: Any = {"mesh": place.mesh, "in_specs": in_specs, "out_specs": out_specs}
        spread = jax.shard_map(function, **options, check_vma=False)
        return jax.jit(spread, compiler_options=in_order())


@functools.cache
def in_order() -> dict[str, Any]:
    """Compiler options for one part of a program after the other, where there are such.

    XLA on a CPU (jaxlib 0.10), running independent parts of a large program at once, can lose one
    of them, and wait for it forever.
    """
    options = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except Exception:  # of a backend or a version that does not know it
        return {}
    return options


def lay_out(num_chains: int, shared: bool) -> Layout:
    """The layout of chains that share a history, or do not, on the devices that there are."""
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
