import pytest
from typer.testing import CliRunner

from srmc.cli import app


def test_the_quick_study_prints_a_table():
    out = CliRunner().invoke(app, ["bench", "noharm", "--quick", "--kernel", "mala"])
    assert out.exit_code == 0, out.output
    for word in ("logistic", "banana", "geometric mean"):
        assert word in out.output


@pytest.mark.parametrize("option", ["--kernel", "--target"])
def test_unknown_names_are_named(option):
    out = CliRunner().invoke(app, ["bench", "noharm", option, "nothing"])
    assert out.exit_code == 2
    assert "must be among" in " ".join(out.output.split())
