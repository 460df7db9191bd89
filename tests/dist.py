"""Does the installed package work? `make dist` runs this outside of the source tree."""

import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

import jax.numpy as jnp

import srmc

home = Path(srmc.__file__).parent
assert home.is_relative_to(sysconfig.get_path("purelib")), home
assert (home / "py.typed").is_file()
assert version("srmc") == srmc.__version__
result = srmc.sample(
    lambda x: -0.5 * jnp.sum(x**2),
    initial_position=jnp.zeros(2),
    num_warmup=100,
    num_samples=100,
    progress=False,
)
assert result.draws["x"].shape == (4, 100, 2)
with tempfile.TemporaryDirectory() as folder:
    result.save(Path(folder) / "result.nc")
    srmc.load(Path(folder) / "result.nc").report(Path(folder) / "run.html")
    assert "prefers-color-scheme" in (Path(folder) / "run.html").read_text()
print(f"srmc {srmc.__version__} in {home} works")  # noqa: T201
