"""The page of errata: what it names exists, and the places that it corrects are marked."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "errata.md").read_text()


def test_every_test_of_the_page_exists():
    files = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("studies/tests/**/*.py")]
    sources = "".join(path.read_text() for path in files)
    names = re.findall(r"`(test_\w+)`", PAGE)
    assert len(names) == 6
    for name in names:
        assert f"def {name}(" in sources, name


def test_the_condition_number_is_that_of_the_page():
    import numpy as np

    lag = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    eigenvalues = np.linalg.eigvalsh(0.9**lag)
    assert round(eigenvalues[-1] / eigenvalues[0]) == 135
    assert round(1 / eigenvalues[0]) == 19
