"""The quick form of each experiment, and the report that is made of them."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import srmc
from srmc.cli.main import command
from srmc_studies.cli.bench import bench
from srmc_studies.paper import EXPERIMENTS, Estimate, Row, _claims, _report
from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Outcome, verdict
from srmc_studies.paper._problems import Errors
from srmc_studies.paper.rho import PAIRS as RHO_PAIRS
from srmc_studies.paper.rho import horizon_row as rho_row

app = command()

ALGORITHM_1 = {"alpha", "gain", "surrogate", "frame", "history_average"}
# On a discrete space there is no frame, and a feature of ours has no surrogate of the paper's.
DISCRETE = {"alpha", "gain", "feature", "history_average"}
# Claims about a self-tuned sampler, of which the quick form has one.
BLOCK = re.compile(r"^(gaussian|logistic), (MALA|HMC): (?=score)")


@pytest.fixture(autouse=True)
def _no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("SRMC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def quick(name):
    """The outcome of an experiment, and whether it left nothing to defaults, for each sampler."""
    given = []

    def spied(builder, needed):
        def build(*args, **options):
            given.append(set(options) >= needed or options == {"alpha": 0.0})
            return builder(*args, **options)

        return build

    with pytest.MonkeyPatch.context() as patch:
        for builder in ("ula", "mala", "hmc"):
            patch.setattr(srmc, builder, spied(getattr(srmc, builder), ALGORITHM_1))
        if name != "claims":  # which asks what a bare kernel costs
            for builder in ("gwg", "dlp"):
                patch.setattr(srmc, builder, spied(getattr(srmc, builder), DISCRETE))
        return EXPERIMENTS[name]("quick", 0), given


def check_complete(outcome):
    assert outcome.figures
    assert outcome.settings
    assert outcome.numbers
    assert outcome.rows
    for row in outcome.rows:
        record = row.record()
        assert all(record[field] for field in ("where", "claim", "paper", "reason", "checks"))
        assert any(value is not None for value, _ in record["ours"].values())


def check_report(name, outcome, folder):
    _report.write(folder, name, outcome, "quick", 0, 1.0)
    rows = _report.build(folder, list(EXPERIMENTS))
    assert rows == json.loads((folder / "ledger.json").read_text())
    assert [row["claim"] for row in rows] == [row.claim for row in outcome.rows]
    assert {row["command"] for row in rows} == {f"srmc reproduce {name} --quick"}
    page = (folder / "index.html").read_text()
    assert page.count("data:image/png;base64") == len(outcome.figures)
    assert page.count("<p class=row>") == len(rows)
    assert page.count("<details id=") == len(_claims.claims(rows))
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    assert (folder / "ledger.md").read_text().count(f"reproduce {name} ") == len(rows)
    assert (folder / "counts.txt").read_text().strip(".\n") in page
    assert all((folder / f"{name}-{title}.svg").is_file() for title in outcome.figures)


def check_committed(name, outcome):
    """The texts of the committed rows are those of the code."""
    path = Path(__file__).parents[3] / "docs" / "reproduction" / f"{name}.json"
    texts = lambda row: (row["where"], BLOCK.sub("", row["claim"]), row["paper"])
    record = json.loads(path.read_text())
    assert record["precision"]
    assert {*map(texts, record["rows"])} == {texts(row.record()) for row in outcome.rows}


def check_seeds(name, outcome):
    """The rows depend on the seed, and on nothing else."""
    outcomes = outcome, EXPERIMENTS[name]("quick", 0), EXPERIMENTS[name]("quick", 1)
    first, again, other = ([row.record() for row in each.rows] for each in outcomes)
    assert again == first
    assert [row["ours"] for row in other] != [row["ours"] for row in first]


# One test per experiment, so that parallel workers do not run an experiment twice.
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_leaves_nothing_to_defaults_and_all_its_rows_are_complete_and_shown(
    name, tmp_path, request
):
    if name == "figure1":  # which takes all its steps in the quick form, too
        request.getfixturevalue("optimised")
    outcome, given = quick(name)
    assert given
    assert all(given)
    check_complete(outcome)
    check_report(name, outcome, tmp_path)
    check_committed(name, outcome)
    if name in ("mixture-cifar", "variance-laws"):
        check_seeds(name, outcome)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ((True, True), "reproduced"),
        ((True, False), "partly"),
        ((False, True), "not"),
        ((False, False), "not"),
    ],
)
def test_a_claim_is_partly_reproduced_only_if_its_main_check_holds(held, expected):
    assert verdict(dict(zip("ab", held, strict=True))) == expected


def ledger_row(verdict, paper="19", claim="a", **more):
    return {"experiment": "rho", "claim": claim, "verdict": verdict, "paper": paper, **more}


def test_our_own_rows_are_counted_apart_and_a_claim_once_whatever_its_readings():
    rows = [ledger_row("not"), ledger_row("partly"), ledger_row("not", claim="b")]
    assert _claims.count(rows) == "Claims of the paper: 1 partly, 1 not"
    own = ledger_row("reproduced", NOT_IN_THE_PAPER, "c")
    assert _claims.count([*rows, own]).endswith("1 not. Our own claims: 1 reproduced")


def test_a_claim_has_the_best_verdict_of_its_rows_and_says_under_which_reading():
    rows = [ledger_row("not", reading="gain 1"), ledger_row("partly", reading="gain 0.1")]
    (claim,) = _claims.claims(rows)
    assert (claim.verdict, claim.readings) == ("partly", "1 of 2: gain 0.1")
    (claim,) = _claims.claims([ledger_row("not"), ledger_row("not comparable")])
    assert claim.verdict == "not comparable"
    starts = [start + " and so on" for start in _claims.MERGED]
    assert len(_claims.claims([ledger_row("not", claim=text) for text in starts])) == 3


def test_what_our_model_cannot_carry_is_not_comparable_whatever_its_checks_say():
    row = Row("a", "b", "19", {}, {"c": True}, "d").record()
    own = row | {"paper": NOT_IN_THE_PAPER}
    for name in _claims.LIMITS:
        assert name in EXPERIMENTS
        assert _claims.row_verdict(name, row) == "not comparable"
        assert _claims.row_verdict(name, own) == "reproduced"
    assert _claims.row_verdict("rho", row) == "reproduced"


def test_what_is_not_comparable_says_how_long_the_paper_s_size_would_take():
    record = {"experiment": "mnist-mixing", "seconds": 720}
    assert "about 1.7 hours on two cores: 8 times its 720 seconds" in _claims.limit(record)
    assert _claims.limit(record | {"experiment": "cifar-single"}) == _claims.LIMITS["cifar-single"]


def test_the_committed_ledger_is_that_of_the_committed_results(tmp_path):
    folder = Path(__file__).parents[3] / "docs" / "reproduction"
    for path in folder.glob("*.json"):
        shutil.copy(path, tmp_path)
    for path in folder.glob("*.png"):
        shutil.copy(path, tmp_path)
    result = CliRunner().invoke(app, ["reproduce", "ledger", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in ("ledger.json", "ledger.md", "counts.txt", "index.html"):
        assert (tmp_path / name).read_text() == (folder / name).read_text(), name


def test_a_ledger_of_nothing_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "ledger", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "has no results" in " ".join(result.output.split())


def test_rows_of_rho_compare_every_horizon():
    steps = np.arange(1, 71) * 5000
    errors = np.ones((6, 4, 70))
    errors[RHO_PAIRS.index((0.1, 0.6))] = errors[RHO_PAIRS.index((0.1, 0.8))] = 0.5
    zeros = np.zeros((6, 4))
    found = Errors(errors, steps, zeros[:, 0], zeros, zeros[:, 0], zeros[:, 0], 0.0)
    lost = dict.fromkeys(RHO_PAIRS, Estimate(0.0, 0.0))
    row = rho_row("mala", 0.1, found, lost, 10.0)
    assert len(row.ours) == 3 * 7
    assert verdict(row.checks) == "reproduced"
    errors[RHO_PAIRS.index((0.1, 0.6)), :, 3] = 2.0
    checks = rho_row("mala", 0.1, found, lost, 10.0).checks
    assert verdict(checks) == "not"
    assert list(checks.values()) == [False, False, True, True, True]


def test_numbers_that_are_not_finite_are_null_in_json():
    row = Row("", "", "", {"x": Estimate(float("inf"), float("nan"))}, {"a": True}, "")
    assert json.loads(json.dumps(row.record(), allow_nan=False))["ours"] == {"x": [None, None]}


def test_the_command_writes_the_report_of_what_it_ran(tmp_path, monkeypatch):
    rows = [Row("figure 1", "a claim", "1", {"x": Estimate(1.0, 0.1)}, {"a": True}, "none")]
    outcome = Outcome({"alpha": 1.0}, {"x": 1.0}, {}, rows)
    monkeypatch.setitem(EXPERIMENTS, "figure1", lambda size, seed, show: outcome)
    result = CliRunner().invoke(app, ["reproduce", "figure1", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "a claim" in result.output
    assert "a claim" in (tmp_path / "index.html").read_text()


def test_every_command_has_a_quick_form_that_a_test_runs():
    commands = {c.callback.__name__ for c in bench.registered_commands} - {"page", "evidence"}
    tests = (Path(__file__).parents[1] / "bench").glob("test_*.py")
    text = "".join(path.read_text() for path in tests)
    assert {name for name in commands if f'"{name}", "--quick"' in text} == commands


def test_an_unknown_experiment_is_named():
    result = CliRunner().invoke(app, ["reproduce", "figure9"])
    assert result.exit_code == 2
    assert "figure9" in result.output
