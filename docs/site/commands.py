"""The page of the command line, `docs/reference/command-line.md`, from the functions behind it.

python docs/site/commands.py
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.models import ArgumentInfo

from srmc.cli.main import STUDIES, app

PAGE = Path(__file__).parents[1] / "reference" / "command-line.md"
HEAD = """# The command line

`srmc COMMAND --help` prints the same, and `srmc --version` the version.
"""


def page() -> str:
    """The page as Markdown."""
    sections = [_section(c.callback) for c in app.registered_commands if c.name not in STUDIES]
    studies = "\n".join(f"- `srmc {name}`: {text}" for name, text in STUDIES.items())
    more = f"## Commands of srmc-studies\n\n`pip install srmc-studies` adds these:\n\n{studies}\n"
    return "\n".join([HEAD, *sections, more])


def _section(command: Callable[..., Any]) -> str:
    found = inspect.signature(command).parameters.values()
    rows = list(_rows([p for p in found if p.annotation is not typer.Context]))
    arguments = [name.strip("`") for name, *_ in rows if "--" not in name]
    name = command.__name__
    lines = [f"## srmc {name}", "", inspect.getdoc(command) or "", ""]
    lines += ["```", " ".join(["srmc", name, *arguments, *["[OPTIONS]"][: len(rows)]]), "```", ""]
    if rows:
        lines += ["| | | default |", "|---|---|---|"]
        lines += [f"| {name} | {text} | {default} |" for name, text, default in rows] + [""]
    return "\n".join(lines)


def _rows(parameters: list[inspect.Parameter]) -> Iterator[tuple[str, str, str]]:
    """The name, the meaning and the default of each parameter."""
    for p in parameters:
        of_type, info = typing.get_args(p.annotation)
        option = p.name.replace("_", "-")
        names = [f"--{option}", f"--no-{option}"] if of_type is bool else [f"--{option}"]
        if str(info.default).startswith("--"):
            names = [info.default, *(info.param_decls or ())]
        if isinstance(info, ArgumentInfo):
            names = [p.name.upper()]
        text = info.help or ""
        if choices := _choices(of_type):
            text += f" One of {', '.join(f'`{c}`' for c in choices)}."
        yield " or ".join(f"`{name}`" for name in names), text, _default(p.default)


def _choices(of_type: Any) -> tuple[Any, ...]:
    if typing.get_origin(of_type) in (typing.Union, types.UnionType):
        return tuple(choice for part in typing.get_args(of_type) for choice in _choices(part))
    return typing.get_args(of_type) if typing.get_origin(of_type) is typing.Literal else ()


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return (
        ""
        if value is None
        else "yes"
        if value is True
        else "no"
        if value is False
        else f"`{value}`"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
