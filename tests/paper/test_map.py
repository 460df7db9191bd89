"""The page that says where the paper is in the library: nothing on it may rot."""

import functools
import json
import operator
from pathlib import Path

import pytest

import srmc
from srmc.paper import _map

ROOT = Path(__file__).parents[2]
ENTRIES = [entry for group in _map.ENTRIES.values() for entry in group]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.labels.split()[0])
def test_functions_and_tests_exist(entry):
    for name in entry.functions.split():
        assert callable(functools.reduce(getattr, name.split("."), srmc)), name
    if entry.test:
        file, test = entry.test.split("::")
        assert f"def {test}(" in (ROOT / "tests" / file).read_text()


def test_every_label_has_one_place():
    labels = [label for entry in ENTRIES for label in entry.labels.split()] + _map.PROOFS
    assert len(labels) == len(set(labels))
    kinds = {"alg": 6, "fig": 14, "tab": 5, "thm": 2, "prop": 9}
    for kind, count in kinds.items():
        assert operator.countOf((label.split(":")[0] for label in labels), kind) == count, kind


def test_every_row_of_the_ledger_is_on_the_page():
    rows = json.loads((ROOT / "docs" / "reproduction" / "ledger.json").read_text())
    known = {key for e in ENTRIES for key in (*e.labels.split(), *e.sections.split())}
    for row in rows:
        assert known & {part.strip() for part in row["where"].split(",")}, row["where"]


def test_the_page_is_that_of_the_ledger():
    rows = json.loads((ROOT / "docs" / "reproduction" / "ledger.json").read_text())
    page = (ROOT / "docs" / "paper.md").read_text()
    assert page == _map.markdown(rows), "run python -m srmc.paper._map"
