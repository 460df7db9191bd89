"""The cache of compiled programs."""

import logging
import re

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


@pytest.mark.parametrize("switch", ["off", "folder", "unset", "broken"])
def test_it_is_where_the_environment_says(tmp_path, monkeypatch, switch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    (tmp_path / "file").write_text("no folder")
    asked = {"off": "off", "folder": str(tmp_path / "mine"), "broken": str(tmp_path / "file")}
    monkeypatch.setenv("SRMC_PROGRAMS", asked.get(switch, ""))
    before = {name: jax.config.values[name] for name in OPTIONS}
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        keep_programs.__wrapped__()  # nothing is compiled before the options are as they were
        found = jax.config.values["jax_compilation_cache_dir"]
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    if switch in ("off", "broken"):
        assert found is None
    else:
        start = tmp_path / ("mine" if switch == "folder" else "home/.cache/srmc/programs")
        assert found.startswith(str(start))


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
