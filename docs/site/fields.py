"""The fields of a class, which its docstring lists as in NumPy's style, as a list of Markdown."""

import re
from typing import Any

import griffe

FIELD = re.compile(r"^(\w+(?:, \w+)*)\n((?: {4}.+\n?)+)", re.MULTILINE)


def as_list(text: str) -> str:
    """Names with an indented text below them as items of a list."""
    names = lambda found: ", ".join(f"`{name}`" for name in found.split(", "))
    return FIELD.sub(lambda m: f"- {names(m[1])}: {' '.join(m[2].split())}\n", text)


class Fields(griffe.Extension):  # type: ignore[misc]
    """Rewrites the docstrings of classes."""

    def on_class(self, *, cls: Any, **_: Any) -> None:
        """Called for each class."""
        if cls.docstring is not None and "\n----" not in cls.docstring.value:
            cls.docstring.value = as_list(cls.docstring.value)
