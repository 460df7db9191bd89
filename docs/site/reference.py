"""The reference of the documentation: an index by task, and a page per package.

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
# The names that users look for first; the pages have the others.
TASKS = {
    "Improve a finished run": [
        *("srmc.improve", "srmc.rebalance", "srmc.reweight", "srmc.zv"),
        *("srmc.rebalance.Report", "srmc.rebalance.rebalanced_error", "srmc.rebalance_stream"),
    ],
    "Sample a model": [
        *("srmc.sample", "srmc.Model", "srmc.Keep", "srmc.learn_coordinates"),
        *("srmc.models.from_stan", "srmc.models.stan_density", "srmc.models.from_value_and_grad"),
        "srmc.enable_cache",
    ],
    "Read and save results": ["srmc.Result", "srmc.summary", "srmc.load", "srmc.RunWarning"],
    "Use PyMC, NumPyro or BlackJAX as before": [
        "srmc.plugins.pymc.sample",
        "srmc.plugins.numpyro.Repelled",
        "srmc.plugins.blackjax.nuts",
    ],
    "Repel a kernel": [
        *("srmc.repel", "srmc.repelled", "srmc.nuts", "srmc.hmc", "srmc.mala", "srmc.mh"),
        *("srmc.ula", "srmc.uld", "srmc.tempering", "srmc.paper_settings"),
    ],
    "Set the strength, the history and the surrogate": [
        *("srmc.fixed", "srmc.watched", "srmc.guarded", "srmc.capped", "srmc.gain_limited"),
        *("srmc.gain", "srmc.shift", "srmc.tilt", "srmc.repel.affine", "srmc.repel.field"),
    ],
    "Sample a discrete space": [
        *("srmc.Binary", "srmc.Ordinal", "srmc.Categorical", "srmc.gwg", "srmc.dlp"),
        *("srmc.acs", "srmc.dlmc"),
        *("srmc.path_auxiliary", "srmc.gibbs", "srmc.block_gibbs", "srmc.flip_mh"),
        *("srmc.locally_balanced", "srmc.kernels.mixed"),
    ],
    "Use stochastic gradients": ["srmc.sgld", "srmc.sghmc"],
    "Estimate a normalising constant": ["srmc.ais", "srmc.kernels.AISResult"],
    "Measure errors and convergence": [
        *("srmc.metrics.r_hat", "srmc.metrics.autocorrelation_time", "srmc.metrics.bfmi"),
        *("srmc.metrics.batch_means_error", "srmc.metrics.repelled_error"),
        *("srmc.metrics.weighted_mean", "srmc.metrics.weighted_quantile"),
    ],
    "Predict what repellence gains": [
        *("srmc.theory.estimate", "srmc.theory.asymptotic_covariance", "srmc.theory.largest_gain"),
        *("srmc.theory.check_tails", "srmc.theory.simulate"),
    ],
}


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


def first_line(place: str) -> str:
    """The first line of its docstring, or of its module if it has none."""
    package, _, name = place.rpartition(".")
    path = SOURCE.parent.joinpath(*package.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text())
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    texts = [ast.get_docstring(n) for n in nodes if n.name == name]  # overloads have none
    passed_on = defined(file, package).get(name, place)
    if not texts and passed_on != place:
        return first_line(passed_on)
    return next(filter(None, [*texts, ast.get_docstring(tree)]), "").partition("\n")[0]


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
                if f"srmc.{name}" not in found[package]:
                    found[package][f"srmc.{package}.{name}"] = place
    found["plugins"] = dict(_plugins())
    first = [name for names in TASKS.values() for name in names]
    rank = lambda name: first.index(name) if name in first else len(first)
    own = lambda package, name: (name != f"srmc.{package}", rank(name))
    return {
        package: {name: names[name] for name in sorted(names, key=lambda n: own(package, n))}
        for package, names in found.items()
    }


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
    """Names by task with a line each, then the names of each page."""
    where = {name: (page, place) for page, names in found.items() for name, place in names.items()}
    lines = ["# Reference", "", "Names by task. Options of the command `srmc` are on a"]
    lines.append("[page of their own](command-line.md); all names are listed at the end.")
    lines.append(
        "`srmc.repel`, `srmc.rebalance` and `srmc.sample` are functions, too. What is in these"
    )
    lines.append("packages is imported by `from`, as in `from srmc.repel import affine`.")
    for task, names in TASKS.items():
        lines += ["", f"## {task}", "", "| name | |", "|---|---|"]
        for name in names:
            package, place = where[name]
            lines.append(f"| [`{name}`]({package}.md#{place}) | {first_line(place)} |")
    lines += ["", "## All names by package", ""]
    for package, places in found.items():
        links = ", ".join(f"[`{name}`]({package}.md#{place})" for name, place in places.items())
        lines.append(f"- **[{TITLES[package]}]({package}.md)**: {links}")
    return "\n".join(lines) + "\n"


def on_config(config: Any) -> Any:
    """Add the pages to the navigation."""
    pages = [
        "reference/index.md",
        {"Command line": "reference/command-line.md"},
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
