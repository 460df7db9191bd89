"""The reference of the documentation: a page per package with every public name in it.

MkDocs calls `on_config` and `on_files`; the names are read from the source, which is not imported.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "srmc"
TITLES = {
    "sample": "Sampling",
    "results": "Results",
    "models": "Models and traces",
    "coordinates": "Learned coordinates",
    "rebalance": "Rebalancing",
    "repel": "Repellence",
    "kernels": "Kernels",
    "targets": "Targets",
    "metrics": "Metrics",
    "theory": "Theory",
    "plugins": "Plug-ins",
}
PLACED = {"_programs": "sample"}  # private modules with a public name


def exported(module: Path) -> list[str]:
    """The names in the `__all__` of a module."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def defined(module: Path, package: str) -> dict[str, str]:
    """Where each exported name is defined, by the imports of its module."""
    where = {}
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("srmc"):
            where |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return {name: where.get(name, f"{package}.{name}") for name in exported(module)}


def packages() -> dict[str, dict[str, str]]:
    """Public names by package, with the place where each is defined."""
    found: dict[str, dict[str, str]] = {package: {} for package in TITLES}
    for name, place in defined(SOURCE / "__init__.py", "srmc").items():
        package = PLACED.get(place.split(".")[1], place.split(".")[1])
        if name != package or package in ("rebalance", "repel", "sample"):
            found[package][f"srmc.{name}"] = place
    for package in TITLES:
        folder = SOURCE / package
        if folder.is_dir():
            for name, place in defined(folder / "__init__.py", f"srmc.{package}").items():
                if place not in found[package].values():
                    found[package][f"srmc.{package}.{name}"] = place
    found["plugins"] = dict(_plugins())
    return found


def _plugins() -> Iterator[tuple[str, str]]:
    for module in sorted((SOURCE / "plugins").glob("[a-z]*.py")):
        tree = ast.parse(module.read_text())
        names = exported(module) or [
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
        ]
        if module.stem == "repelled":
            continue  # part of the plug-in for NumPyro
        where = defined(module, f"srmc.plugins.{module.stem}")
        for name in names:
            place = f"srmc.plugins.{module.stem}.{name}"
            yield place, where.get(name, place)


def page(title: str, names: dict[str, str]) -> str:
    """A page with the signature and docstring of each name."""
    entries = [
        f"::: {place}\n    options:\n      heading: {name}\n" for name, place in names.items()
    ]
    return f"# {title}\n\n" + "\n".join(entries)


def index(found: dict[str, dict[str, str]]) -> str:
    """The list of all names."""
    lines = ["# Reference", "", "Every public name, by what it is for.", ""]
    for package, names in found.items():
        links = ", ".join(f"[`{name}`]({package}.md#{place})" for name, place in names.items())
        lines.append(f"- **[{TITLES[package]}]({package}.md)**: {links}")
    return "\n".join(lines) + "\n"


def on_config(config: Any) -> Any:
    """Add the pages to the navigation."""
    pages = [
        "reference/index.md",
        *({TITLES[package]: f"reference/{package}.md"} for package in packages()),
    ]
    config.nav.append({"Reference": pages})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    found = packages()
    texts = {package: page(TITLES[package], names) for package, names in found.items()}
    for name, text in ({"index": index(found)} | texts).items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files
