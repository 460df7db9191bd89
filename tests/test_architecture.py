"""Data flows one way, studies use public names, and modules and functions are short."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "srmc"
STUDIES = ROOT / "studies" / "src" / "srmc_studies"

# A package imports from itself and from those before it.
PACKAGES = (
    *("types", "_checks", "_attempt", "_extras", "_programs", "_progress", "_versions"),
    "_files",
    *("metrics", "repel", "kernels", "theory", "targets", "coordinates", "rebalance", "models"),
    *("results", "sample", "plugins"),
)
# Imported only where they are used, so that `import srmc` is little more than `import blackjax`.
LATE = (
    *("arviz", "bridgestan", "distributed", "fsspec", "h5netcdf", "IPython", "matplotlib"),
    *("numpyro", "nutpie", "pandas", "pymc", "rich", "sklearn", "typer", "xarray", "zarr"),
    *("jax.extend.core", "scipy.optimize", "srmc_studies", "srmc.cli", "srmc.plugins"),
)
LINES = 60  # of a function, docstring and signature aside


def imports(path):
    """The modules of srmc that a module imports from, with the names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module.split(".")[0] == "srmc":
                yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "srmc":
                    yield alias.name, []


def imported_packages(path):
    for module, names in imports(path):
        yield from [module.split(".")[1]] if "." in module else names


def modules(package):
    folder = SRC / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [SRC / f"{package}.py"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_from_one_further_down_the_line(package):
    allowed = {*PACKAGES[: PACKAGES.index(package) + 1]}
    if package == "_versions":
        allowed.add("__version__")
    for path in modules(package):
        found = set(imported_packages(path))
        assert found <= allowed, (path.name, found - allowed)


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.py")), ids=lambda p: p.stem)
def test_studies_use_public_names_only(path):
    for module, names in imports(path):
        public = importlib.import_module(module)
        assert "__all__" in vars(public), (path.name, module)
        assert {*names} <= {*public.__all__}, (path.name, module, names)


def test_only_public_modules_of_other_packages_are_imported():
    private = re.compile(r"^\s*(?:from|import) (?!srmc|_)\S*(?:\._| import _)", re.M)
    found = {path: private.findall(path.read_text()) for path in SRC.rglob("*.py")}
    assert not any(found.values()), found


def test_every_package_is_described():
    found = {p.stem for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert found == {*PACKAGES, "cli", "_deprecated", "__init__"}
    page = (ROOT / "docs" / "developers" / "architecture.md").read_text()
    for package in found - {"__init__", "_deprecated"}:
        assert f"`{package}" in page, package


def test_modules_and_functions_are_short():
    lengths = {path: len(path.read_text().splitlines()) for path in SRC.rglob("*.py")}
    assert max(lengths.values()) <= 400
    assert sorted(lengths.values())[len(lengths) // 2] < 200
    for path in lengths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                if body:
                    assert body[-1].end_lineno - body[0].lineno < LINES, (path.name, node.name)


def test_what_takes_long_to_import_is_imported_where_it_is_used():
    script = "import srmc, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert "srmc.sample" in loaded
    assert not {*LATE} & {*loaded}
