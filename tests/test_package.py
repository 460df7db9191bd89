"""What a release carries besides code."""

import inspect
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import srmc

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_version():
    assert f"\nversion: {srmc.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_types_are_shipped_and_the_pythons_are_named():
    assert (Path(srmc.__file__).parent / "py.typed").exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in project["classifiers"]
    assert project["requires-python"] == ">=3.11"


def test_what_the_upgrade_note_says_to_write_exists():
    page = (ROOT / "docs" / "howto" / "upgrading.md").read_text()
    advice = " ".join(line.split("|")[2] for line in page.splitlines() if line.startswith("| "))
    names = re.findall(r"srmc\.(\w+)", advice)
    options = [o.replace("-", "_") for o in re.findall(r"--(?:no-)?([a-z-]+)", advice)]
    assert names
    for name in names:
        assert hasattr(srmc, name) or find_spec(f"srmc.{name}"), name
    assert len(options) == 5
    for option in options:
        assert option in inspect.signature(srmc.sample).parameters, option
