"""The Python of the README and of the pages runs as it is printed."""

import re
from pathlib import Path

import jax.numpy as jnp
import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block, capsys):
    scope: dict = {}
    exec(block, scope)
    assert scope["draws"].shape == (1000, 10)
    assert jnp.all(jnp.isfinite(scope["draws"]))
    assert "gradients" in capsys.readouterr().out


@pytest.mark.parametrize(
    "page", sorted((README.parent / "docs").glob("*.md")), ids=lambda p: p.stem
)
def test_the_pages_code_runs(page):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(block, {})
