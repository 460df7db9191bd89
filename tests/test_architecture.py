"""The house: data flows one way, and what is benchmarked goes through the front door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import srmc

SRC = Path(__file__).parents[1] / "src" / "srmc"

# A room imports from itself and from those before it.
ROOMS = (
    *("_types", "_checks", "_attempt", "_arviz", "_programs", "_progress", "_versions", "store"),
    *("metrics", "core", "discrete", "kernels", "samplers", "theory", "targets"),
    *("models", "tune", "run", "after", "results", "sample", "plugins"),
)
# These use what anyone can use: the package itself, and its public rooms.
OUTSIDE = ("paper", "bench")
# Imported only where they are used, so that `import srmc` is little more than `import blackjax`.
LATE = (
    *("arviz", "bridgestan", "h5netcdf", "IPython", "matplotlib", "numpyro", "nutpie", "pandas"),
    *("pymc", "rich", "sklearn", "typer", "xarray", "zarr", "jax.extend.core"),
    *("srmc.bench", "srmc.cli", "srmc.paper", "srmc.plugins"),
)


def rooms_imported(path):
    """The rooms of srmc that a module imports from, "" for the package itself, with the names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            package, *rest = node.module.split(".")
            if package == "srmc":
                names = [alias.name for alias in node.names]
                yield from [(rest, names)] if rest else [([name], []) for name in names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                package, *rest = alias.name.split(".")
                if package == "srmc":
                    yield rest or [""], []


def modules(room):
    folder = SRC / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [SRC / f"{room}.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_from_one_further_down_the_line(room):
    allowed = {*ROOMS[: ROOMS.index(room) + 1]}
    if room == "_versions":
        allowed.add("__version__")
    for path in modules(room):
        found = {rest[0] for rest, _ in rooms_imported(path)}
        assert found <= allowed, (path.name, found - allowed)


@pytest.mark.parametrize("room", OUTSIDE)
def test_studies_use_public_names_only(room):
    for path in modules(room):
        for rest, names in rooms_imported(path):
            if rest[0] in ("", room, "_types") or rest[0] in srmc.__all__:
                assert len(rest) == 1 or rest[0] == room, (path.name, rest)
                continue
            raise AssertionError((path.name, rest, names))


def test_every_room_is_on_the_map():
    rooms = {p.stem for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms == {*ROOMS, *OUTSIDE, "cli", "__init__"}
    page = (SRC.parents[1] / "docs" / "architecture.md").read_text()
    for room in rooms - {"__init__"}:
        assert f"`{room}" in page, room


def test_no_module_is_long_and_no_function_leaves_the_screen():
    lengths = {path: len(path.read_text().splitlines()) for path in SRC.rglob("*.py")}
    assert max(lengths.values()) <= 400
    assert sorted(lengths.values())[len(lengths) // 2] < 150


def test_what_takes_long_to_import_is_imported_where_it_is_used():
    script = "import srmc, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert "srmc.sample" in loaded
    assert not {*LATE} & {*loaded}
