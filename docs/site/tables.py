"""Long tables: folded, with their rows as a CSV file to download.

MkDocs calls `on_files`, which adds the files, and `on_page_markdown`, which folds the tables.
"""

import csv
import io
import re
from pathlib import PurePosixPath
from typing import Any

LONG = 12  # rows
OPEN = 30  # rows of the first table of a page, up to which it stays open
TABLE = re.compile(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|(?:\n|\Z))+", re.MULTILINE)
CODE = re.compile(r"```.*?```", re.DOTALL)


def long_tables(text: str, page: str) -> list[str]:
    """The tables of results on a page that are not shown as a whole."""
    if not page.startswith(("evidence/", "reproduction/")):
        return []
    found = TABLE.findall(CODE.sub("", text))
    return [
        table
        for number, table in enumerate(found)
        if table.count("\n") > 2 + (LONG if number else OPEN)
    ]


def as_csv(table: str) -> str:
    """The cells of a table, without Markdown."""
    out = io.StringIO()
    rows = table.strip().splitlines()
    for row in [rows[0], *rows[2:]]:
        cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
        plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", cell).strip() for cell in cells]
        csv.writer(out, lineterminator="\n").writerow(plain)
    return out.getvalue()


def name_of(page: str, number: int) -> str:
    """The file of a table, beside its page."""
    path = PurePosixPath(page)
    return f"{path.with_suffix('')}-{number}.csv"


def on_files(files: Any, config: Any) -> Any:
    """Add a CSV file for each long table."""
    from mkdocs.structure.files import File

    for page in list(files.documentation_pages()):
        for number, table in enumerate(long_tables(page.content_string, page.src_uri), 1):
            name = name_of(page.src_uri, number)
            files.append(File.generated(config, name, content=as_csv(table)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fold each long table, below a link to its file."""
    for number, table in enumerate(long_tables(markdown, page.file.src_uri), 1):
        name = PurePosixPath(name_of(page.file.src_uri, number)).name
        count = table.count("\n") - 2
        rows = "".join(f"    {line}\n" for line in table.splitlines())
        folded = f'[CSV file of {count} rows]({name})\n\n??? note "{count} rows"\n\n{rows}'
        markdown = markdown.replace(table, folded, 1)
    return markdown
