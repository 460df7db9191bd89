"""HTML in which every text is escaped, unless it is markup already."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML."""


def tag(name: str, *inside: Any, **attributes: Any) -> Markup:
    """An element; attributes such as `class_` and `aria_label` lose and change underscores.

    >>> print(tag("p", "a < b", tag("b", "!"), class_="note"))
    <p class="note">a &lt; b<b>!</b></p>
    """
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    shown = "".join(f' {names[k]}="{escape(str(v))}"' for k, v in attributes.items())
    return Markup(f"<{name}{shown}>{join(inside)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    """Parts one after the other, escaped where they are not markup."""
    return Markup("".join(x if isinstance(x, Markup) else escape(str(x)) for x in parts))


def table(heads: Sequence[Sequence[Any]], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table that scrolls in a box of its own; the first entry of a row is its head.

    A head is a text, or a pair of a text and the number of columns that it spans.
    """
    row = lambda cells: tag("tr", *cells)
    head = [row(_head(cell) for cell in line) for line in heads]
    body = [
        row((tag("th", first, scope="row"), *(tag("td", x) for x in rest))) for first, *rest in rows
    ]
    inside = ([tag("thead", *head)] if head else []) + [tag("tbody", *body)]
    return tag("div", tag("table", *inside), class_="scroll", tabindex=0)


def limit(total: int, shown: int, what: str) -> Iterator[Markup]:
    """A note where not everything is shown."""
    if total > shown:
        yield tag("p", f"The first {shown:,} of {total:,} {what}.", class_="small")


def _head(cell: Any) -> Markup:
    if isinstance(cell, tuple):
        return tag("th", cell[0], scope="colgroup", colspan=cell[1])
    return tag("th", cell, scope="col")
