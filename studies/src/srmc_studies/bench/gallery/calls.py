"""The calls of the study, each by the library's own public call."""

import importlib.util
import json
import os
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import srmc
from srmc_studies.bench.gallery.models import MODELS


class Size(NamedTuple):
    """Number of warm-up and sampling steps per chain, and of chains."""

    warmup: int = 1000
    samples: int = 1000
    chains: int = 4


def srmc_sample(name: str, size: Size, seed: int, **options: Any) -> srmc.Result:
    """`srmc.sample` at its defaults."""
    entry = MODELS[name]
    if entry.data is not None:
        options["data"] = entry.data()
    return srmc.sample(
        built(name),
        num_warmup=size.warmup,
        num_samples=size.samples,
        num_chains=size.chains,
        seed=seed,
        progress=False,
        **options,
    )


def pymc_sample(name: str, size: Size, seed: int, **options: Any) -> Any:
    """`pm.sample` at its defaults."""
    import pymc as pm

    return pm.sample(
        size.samples,
        tune=size.warmup,
        chains=size.chains,
        random_seed=seed,
        model=built(name),
        compute_convergence_checks=False,
        progressbar=False,
        **options,
    )


def numpyro_sample(name: str, size: Size, seed: int) -> Any:
    """NumPyro's NUTS, chains vectorised; a PyMC model by way of `pm.sample`."""
    entry = MODELS[name]
    if entry.data is None:
        vectorized = {"chain_method": "vectorized"}
        return pymc_sample(name, size, seed, nuts_sampler="numpyro", nuts_sampler_kwargs=vectorized)
    import arviz as az
    import jax
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(
        NUTS(built(name)),
        num_warmup=size.warmup,
        num_samples=size.samples,
        num_chains=size.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), *entry.data())
    return az.from_numpyro(mcmc)


def nutpie_sample(name: str, size: Size, seed: int) -> Any:
    """nutpie at its defaults, a PyMC model compiled by Numba."""
    import nutpie

    return nutpie.sample(
        nutpie.compile_pymc_model(built(name)),
        draws=size.samples,
        tune=size.warmup,
        chains=size.chains,
        seed=seed,
        progress_bar=False,
    )


LIBRARIES = {
    "srmc": srmc_sample,
    "PyMC": pymc_sample,
    "NumPyro": numpyro_sample,
    "nutpie": nutpie_sample,
}
_BUILT: dict[str, Any] = {}


def built(name: str) -> Any:
    """The model, built once in a process, as a user has it."""
    if name not in _BUILT:
        _BUILT[name] = MODELS[name].build()
    return _BUILT[name]


def usable(name: str) -> list[str]:
    """The installed libraries that take the model, srmc first."""
    own = MODELS[name].library
    takes = [lib for lib in LIBRARIES if own == "PyMC" or lib in ("srmc", own)]
    return [lib for lib in takes if importlib.util.find_spec(lib.lower()) is not None]


def main(library: str, name: str, size: Size, seeds: int, folder: str) -> None:
    """Tell what the first call in this process took; traces go to `folder`, one per seed.

    The library is imported and the model built before the clocks start.
    """
    built(name)
    importlib.import_module(library.lower())
    began, spent = time.perf_counter(), _processor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = LIBRARIES[library](name, size, 0)
        took = {"seconds": time.perf_counter() - began, "processor": _processor() - spent}
        sys.stdout.write(json.dumps(took) + "\n")
        sys.stdout.flush()
        for seed in range(seeds if library != "srmc" else 0):
            trace = LIBRARIES[library](name, size, seed) if seed else trace
            (Path(folder) / f"{library}-{seed}.trace").write_bytes(pickle.dumps(trace))


def _processor() -> float:
    """The processor's seconds of this process and of those that it has started and that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    asked["size"] = Size(*asked["size"])
    main(**asked)
