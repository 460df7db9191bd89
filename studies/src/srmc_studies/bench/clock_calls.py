"""Whole runs of a model by several libraries, each by its own public call, and their time."""

import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.targets import Target
from srmc_studies.bench import rivals
from srmc_studies.bench.posteriors.base import of_target


class Size(NamedTuple):
    """Number of warm-up and sampling steps, and of chains."""

    warmup: int = 1000
    samples: int = 1000
    chains: int = 4


class Times(NamedTuple):
    """Seconds by the clock, and those that all threads of the process were at work."""

    wall: float
    cpu: float


Call = Callable[[int], Any]  # a run with a seed
START = 0.1  # of all coordinates; nutpie refuses a start whose gradient is 0


def stretched(dim: int) -> Target:
    """Independent normal coordinates with scales from 1 to 10: a gradient that costs nothing."""
    scales = np.geomspace(1.0, 10.0, dim).astype(np.float32)
    return Target(
        name=f"normal-{dim}",
        about=f"{dim} independent normal coordinates",
        logdensity_fn=lambda x: -0.5 * jnp.sum((x / scales.astype(x.dtype)) ** 2),
        position=jnp.zeros(dim),
    )


MODELS: dict[str, Callable[[], Target]] = {
    "logistic-3": lambda: srmc.targets.logistic(100, 3),
    "eight_schools": srmc.targets.eight_schools,
    "logistic-10": srmc.targets.logistic,
    "logistic-100": lambda: srmc.targets.logistic(500, 100),
    "normal-1000": lambda: stretched(1000),
}


def find(name: str) -> Target:
    """A model by name; `normal-d` has d dimensions."""
    return MODELS[name]() if name in MODELS else stretched(int(name.removeprefix("normal-")))


def of_srmc(target: Target, size: Size, keep: str = "draws", kernel: str = "nuts") -> Call:
    """`srmc.sample` at its defaults, or with what is given."""

    def call(seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", srmc.RunWarning)
            return srmc.sample(
                target,
                kernel=kernel,
                num_warmup=size.warmup,
                num_samples=size.samples,
                num_chains=size.chains,
                seed=seed,
                keep=keep,
                progress=False,
            )

    return call


def of_blackjax(target: Target, size: Size) -> Call:
    """BlackJAX's window adaptation and NUTS, compiled as one program."""
    posterior = of_target(target.name, target)
    sampler = rivals.SAMPLERS["BlackJAX NUTS"]
    one = lambda key, start: sampler(
        posterior.logdensity_fn, key, start, size.warmup, size.samples
    )[0]
    program = jax.jit(jax.vmap(one))
    starts = jnp.full((size.chains, posterior.dim), START)
    return lambda seed: program(jax.random.split(jax.random.key(seed), size.chains), starts)


def of_numpyro(target: Target, size: Size) -> Call:
    """NumPyro's MCMC with NUTS, all chains in one program."""
    from numpyro.infer import MCMC, NUTS

    posterior = of_target(target.name, target)
    mcmc = MCMC(
        NUTS(potential_fn=lambda x: -posterior.logdensity_fn(x)),
        num_warmup=size.warmup,
        num_samples=size.samples,
        num_chains=size.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    starts = jnp.full((size.chains, posterior.dim), START)

    def call(seed: int) -> Any:
        mcmc.run(jax.random.key(seed), init_params=starts)
        return mcmc.get_samples()

    return call


def of_nutpie(target: Target, size: Size) -> Call:
    """nutpie with the gradient compiled by JAX, one chain after the other."""
    posterior = of_target(target.name, target)
    starts = jnp.full((size.chains, posterior.dim), START)

    def call(seed: int) -> Any:
        key = jax.random.key(seed)
        with jax.enable_x64(True):
            doubles = starts.astype(float)
            return rivals.run("nutpie", posterior, key, doubles, size.warmup, size.samples).draws

    return call


LIBRARIES: dict[str, Callable[..., Call]] = {
    "BlackJAX": of_blackjax,
    "srmc": of_srmc,
    "NumPyro": of_numpyro,
    "nutpie": of_nutpie,
}


def missing() -> list[str]:
    """The libraries that are not installed here."""
    return [name for name in LIBRARIES if importlib.util.find_spec(name.lower()) is None]


def calls(library: str, model: str, size: Size, count: int, **options: Any) -> list[Times]:
    """The times of so many calls with different seeds, one after the other."""
    call = LIBRARIES[library](find(model), size, **options)
    times = []
    for seed in range(count):
        began = time.perf_counter(), time.process_time()
        jax.block_until_ready(call(seed))  # the result of srmc holds arrays of NumPy
        times.append(Times(time.perf_counter() - began[0], time.process_time() - began[1]))
    return times


def peak_megabytes() -> float:
    """The most memory that this process has used so far; NaN where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own is for: the first call, and its peak of memory."""
    jax.block_until_ready(jnp.zeros(()) + 1)  # JAX itself has started
    before = peak_megabytes()
    times = calls(**asked | {"size": Size(*asked["size"])})
    return {"times": times, "megabytes": peak_megabytes(), "megabytes_before": before}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
