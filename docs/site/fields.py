"""Docstrings for the site: fields of classes as a list, and what functions return with its type."""

import re
from typing import Any

import griffe

FIELD = re.compile(r"^(\w+(?:, \w+)*)\n((?: {4}.+\n?)+)", re.MULTILINE)


def as_list(text: str) -> str:
    """Names with an indented text below them as items of a list."""
    names = lambda found: ", ".join(f"`{name}`" for name in found.split(", "))
    return FIELD.sub(lambda m: f"- {names(m[1])}: {' '.join(m[2].split())}\n", text)


RETURNS = re.compile(r"(?<=\nReturns\n-------\n)\w.*?(?=\n\n\w+\n---|\Z)", re.DOTALL)


def with_type(text: str, annotation: str) -> str:
    """NumPy's style asks for a type above the description of what is returned."""
    below = lambda m: annotation + "".join(f"\n    {line}" for line in m[0].splitlines())
    return RETURNS.sub(below, text)


class Fields(griffe.Extension):  # type: ignore[misc]
    """Rewrites the docstrings of classes and functions."""

    def on_function(self, *, func: Any, **_: Any) -> None:
        """Called for each function."""
        if func.docstring is not None and func.returns is not None:
            func.docstring.value = with_type(func.docstring.value, str(func.returns))

    def on_class(self, *, cls: Any, **_: Any) -> None:
        """Called for each class."""
        if cls.docstring is not None and "\n----" not in cls.docstring.value:
            cls.docstring.value = as_list(cls.docstring.value)
