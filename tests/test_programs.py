"""The cache of compiled programs."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import jax, srmc._programs
srmc._programs.keep_programs()
print(jax.config.values["jax_compilation_cache_dir"])
"""


@pytest.mark.parametrize("switch", ["off", "folder", "unset", "broken"])
def test_it_is_where_the_environment_says(tmp_path, switch):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}
    if switch == "off":
        environment["SRMC_PROGRAMS"] = "off"
    elif switch == "folder":
        environment["SRMC_PROGRAMS"] = str(tmp_path / "mine")
    elif switch == "broken":
        (tmp_path / "file").write_text("no folder")
        environment["SRMC_PROGRAMS"] = str(tmp_path / "file")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    found = ran.stdout.strip()
    if switch in ("off", "broken"):
        assert found == "None"
    else:
        start = tmp_path / ("mine" if switch == "folder" else "home/.cache/srmc/programs")
        assert found.startswith(str(start))
