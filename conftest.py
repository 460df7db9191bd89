"""Settings of all tests: strict, and compiled fast."""

import gc
import os
import resource
import sys
from importlib.metadata import version

# One worker of the tests is one thread of linear algebra.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compiling is what takes the time, here and in child processes; this takes a third of it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # which nobody reads here
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # JAX 0.9 logs a page per program from the cache
if version("jaxlib").startswith("0.9."):  # XLA does not start with a flag that it does not know
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    )

import jax
import pytest

from srmc._extras import import_arviz

FLAGS = os.environ.get("XLA_FLAGS", "")
import_arviz()  # before PyMC does, in whose hands ArviZ's stamp of the day can fail

collect_ignore = ["tests/dist.py"]  # a script for an installed package


def pytest_configure(config):
    """Programs that several tests, or their child processes, compile are compiled once."""
    # Said in pyproject.toml, it would import srmc, and start XLA, before the flags are set.
    config.addinivalue_line("filterwarnings", "ignore::srmc.RunWarning")
    folder = str(config.rootpath / ".pytest_cache" / "jax")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


# Modules of every package that take little time, for `make quick`.
QUICK = {
    *("test_architecture", "test_package", "test_progress"),
    *("test_tails", "test_history", "test_strength", "test_when"),
    *("test_sitewise", "test_stability", "test_whiten", "test_learned"),
    *("test_estimate", "test_reweight", "test_labels", "test_callback", "test_plots"),
    *("test_summarise", "test_plan", "test_lock", "test_targets", "test_map", "test_coverage"),
}


# Modules with the longest tests, which come first, so that no worker ends with one of them.
LONGEST = {
    *("test_learning", "test_cluster", "test_stop", "test_devices", "test_many", "test_guard"),
    *("test_improve_examples", "test_reproduction", "test_hierarchical", "test_learned"),
}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        if item.path.stem in QUICK:
            item.add_marker(pytest.mark.quick)


def pytest_collection_finish():
    """Tracing makes many objects that live long; searching them for cycles takes its time, too."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def memory():
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if MACOS else 1024)


MACOS = sys.platform == "darwin"  # which counts in bytes
bound = 2e9


@pytest.fixture(autouse=True, scope="module")
def _forget():
    """After a module, drop its programs if memory has grown; what they took is used again."""
    global bound
    yield
    if memory() > bound:
        jax.clear_caches()
        bound = memory() + 5e8


@pytest.fixture(autouse=True)
def _strict():
    os.environ["XLA_FLAGS"] = FLAGS  # PyMC's JAX samplers ask for 100 devices, in children too
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimised():
    """Programs are compiled as they are for users, where a test runs longer than it compiles."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, False)
    yield
    jax.config.update(name, before)
