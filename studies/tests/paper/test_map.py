"""The page that says where the paper is in the library: nothing on it may rot."""

import functools
import json
from pathlib import Path

import pytest

import srmc
from srmc_studies.paper import _map, _places

ROOT = Path(__file__).parents[3]
ENTRIES = [entry for group in _places.ENTRIES.values() for entry in group]
LABELLED = [
    entry
    for title, group in _places.ENTRIES.items()
    if "without a label" not in title
    for entry in group
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.labels.split()[0])
def test_functions_and_tests_exist(entry):
    for name in entry.functions.split():
        assert callable(functools.reduce(getattr, name.split("."), srmc)), name
    file, test = entry.test.split("::")
    assert f"def {test}(" in (ROOT / file).read_text()


def test_every_label_of_the_paper_has_one_place():
    """labels.txt has each label of the paper's LaTeX but those of sections, in its order."""
    unchecked = " ".join(_places.UNCHECKED).split()
    places = [label for entry in LABELLED for label in entry.labels.split()] + unchecked
    expected = (ROOT / "studies" / "tests" / "paper" / "labels.txt").read_text().split()
    assert len(expected) == 114
    assert sorted(places) == sorted(expected)


def test_every_place_has_function_test_command_and_verdict():
    for line in (ROOT / "docs" / "paper.md").read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            assert len(cells) == 6, line
            assert all(cells), line


def test_every_row_of_the_ledger_is_on_the_page():
    rows = json.loads((ROOT / "docs" / "reproduction" / "ledger.json").read_text())
    known = {key for e in ENTRIES for key in (*e.labels.split(), *e.sections.split())}
    for row in rows:
        assert known & {part.strip() for part in row["where"].split(",")}, row["where"]


def test_the_page_is_that_of_the_ledger():
    rows = json.loads((ROOT / "docs" / "reproduction" / "ledger.json").read_text())
    page = (ROOT / "docs" / "paper.md").read_text()
    assert page == _map.markdown(rows), "run python -m srmc_studies.paper._map"
