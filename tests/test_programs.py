"""The cache of compiled programs."""

import logging
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc._programs import keep_programs

OPTIONS = (
    *("jax_compilation_cache_dir", "jax_compilation_cache_max_size"),
    "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, no cache; nothing may be compiled before the options are as they were."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", "SRMC_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)
    before = {name: getattr(jax.config, name) for name in OPTIONS}
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)


def folder():
    return jax.config.jax_compilation_cache_dir


def test_it_is_enabled_in_a_folder_of_this_kind_of_machine(home):
    path = srmc.enable_cache(home / "mine")
    assert folder() == str(path)
    assert path.parent == home / "mine"
    assert path.is_dir()
    assert srmc.enable_cache(home / "other") == path  # the first one stays
    assert not (home / "other").exists()


def test_it_is_in_the_users_cache_unless_said_otherwise(home):
    assert srmc.enable_cache().parent == home / ".cache" / "srmc" / "programs"


def test_a_folder_that_cannot_be_made_is_an_error(home):
    (home / "file").write_text("no folder")
    with pytest.raises(OSError, match="file"):
        srmc.enable_cache(home / "file")
    assert folder() is None


@pytest.mark.parametrize("unasked", [False, True])
@pytest.mark.parametrize(
    ("asked", "found"), [("off", None), ("mine", "mine"), ("file", None), ("", ".cache")]
)
def test_the_environment_and_the_command_line_enable_it(home, monkeypatch, asked, found, unasked):
    (home / "file").write_text("no folder")
    monkeypatch.setenv("SRMC_PROGRAMS", str(home / asked) if asked in ("mine", "file") else asked)
    keep_programs(unasked)
    if found is None or not (asked or unasked):
        assert folder() is None
    else:
        assert folder().startswith(str(home / found))


UNASKED = """
import atexit, jax, blackjax
hooks, options = atexit._ncallbacks(), dict(jax.config.values)
import jax.numpy as jnp, numpy as np, srmc
assert atexit._ncallbacks() == hooks
start = np.zeros(2, np.float32)
logp = lambda x: -0.5 * jnp.sum(x**2)
size = {"num_warmup": 100, "num_samples": 100, "num_chains": 2, "progress": False}
plain = srmc.sample(logp, initial_position=start, kernel="mala", alpha=0.0, **size)
srmc.rebalance(plain.draws["x"], jax.grad(logp), progress=False)
assert dict(jax.config.values) == options
"""


def test_importing_sampling_and_rebalancing_leave_the_process_and_the_home_alone(tmp_path):
    dropped = ("JAX_COMPILATION_CACHE_DIR", "SRMC_PROGRAMS", "XDG_CACHE_HOME")
    env = {k: v for k, v in os.environ.items() if k not in dropped} | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", UNASKED], env=env, check=True)
    assert not list(tmp_path.rglob("*srmc*"))


def compiled(caplog):
    """The names of the programs that were compiled, or fetched from disk, since the last look."""
    names = re.findall(r"Compiling jit\(([^)]*)\)", caplog.text)
    caplog.clear()
    return names


@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_warm_up_and_sampling_are_one_program_and_a_second_call_compiles_nothing(caplog, alpha):
    data = np.array([0.3, -0.8, 1.1], np.float32)
    logp = lambda x: -0.5 * jnp.sum((x[:, None] - data[None]) ** 2)
    options = {"num_warmup": 120, "num_samples": 100, "num_chains": 2, "progress": False}
    options |= {"alpha": alpha, "initial_position": np.zeros(2, np.float32)}
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        srmc.sample(logp, **options)
        assert compiled(caplog).count("fill") == 1
        srmc.sample(logp, **options | {"seed": 1, "initial_position": np.ones(2, np.float32)})
        assert compiled(caplog) == []


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "hmc", "num_integration_steps": 2, "alpha": 1.0},
        {"kernel": "mala", "keep": "moments"},
        {"kernel": "gwg", "space": srmc.Binary()},
        {"kernel": "gwg", "space": srmc.Binary(), "keep": "moments"},
    ],
)
def test_a_second_call_compiles_nothing_on_any_path(caplog, options):
    logp = lambda x: -0.5 * jnp.sum((x - 0.3) ** 2)
    options |= {"num_warmup": 120, "num_samples": 100, "num_chains": 2, "progress": False}
    start = {"initial_position": np.zeros(2, np.float32)}
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        srmc.sample(logp, **options, **start)
        compiled(caplog)
        srmc.sample(logp, **options, **start, seed=1)
        assert compiled(caplog) == []


def posterior(x, data):
    return -0.5 * jnp.sum((data - x[0]) ** 2) - 0.5 * x[0] ** 2


def test_models_of_equal_shape_share_a_program(caplog):
    data = np.random.default_rng(0).normal(size=(3, 20)).astype(np.float32)
    first, *others = [jax.tree_util.Partial(posterior, data=own) for own in data]
    options = {"num_warmup": 120, "num_samples": 100, "num_chains": 2, "progress": False}
    options |= {"kernel": "hmc", "initial_position": np.zeros(1, np.float32)}
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        srmc.sample(first, **options)
        compiled(caplog)
        runs = srmc.sample_many(others, **options)
        assert not runs.failed
        assert compiled(caplog) == []
    means = [run.result.draws["x"].mean() for run in runs.values()]
    np.testing.assert_allclose(means, data[1:].sum(axis=1) / 21, atol=0.2)


def test_a_second_call_of_rebalance_compiles_nothing(caplog):
    logp = lambda x: -0.5 * jnp.sum((x - 0.3) ** 2)
    x = 0.3 + np.random.default_rng(0).normal(size=(2, 100, 3)).astype(np.float32)
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        srmc.rebalance(x, scores=0.3 - x, logdensity_fn=logp)
        assert compiled(caplog)
        srmc.rebalance(x[:, :50], logdensity_fn=logp)
        assert compiled(caplog) == []


def test_adaptation_inside_the_run_finds_scales_and_step_size():
    scales = np.array([0.1, 1.0, 10.0], np.float32)
    logp = lambda x: -0.5 * jnp.sum((x / scales) ** 2)
    options = {"num_warmup": 600, "num_samples": 200, "progress": False}
    result = srmc.sample(logp, alpha=0.0, initial_position=scales, **options)
    assert abs(result.stats["acceptance_rate"].mean() - 0.85) < 0.1
    error = result.draws["x"].std(axis=(0, 1)) / scales - 1
    assert np.all(np.abs(error) < 0.3)
    given = srmc.sample(logp, alpha=0.0, step_size=0.3, initial_position=scales, **options)
    assert given.about["measured"]["step_size"] == pytest.approx(0.3)
