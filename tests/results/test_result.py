import json

import numpy as np
import pytest

import srmc
from srmc.results import formats
from srmc.results.kept import Kept
from srmc.results.result import Result


@pytest.fixture
def result():
    rng = np.random.default_rng(0)
    stats = {"alpha": np.ones((2, 100)), "theta_norm": np.ones((2, 100))}
    stats |= {"exponent": rng.random((2, 100)), "acceptance_rate": rng.random((2, 100))}
    stats["gradients"] = np.full((2, 100), 3)
    about = {"settings": {"model": "m", "kernel": "nuts", "alpha": "auto"}}
    about["num_draws"] = 100
    draws = {"a": rng.normal(size=(2, 100)), "b.c": rng.normal(size=(2, 100, 3, 2))}
    kept = Kept(stats=stats, draws=draws, base={"a": draws["a"] + 0.1})
    return Result(kept, about)


def test_saved_and_loaded_it_is_the_same(result, tmp_path):
    result.save(tmp_path / "r.nc")
    again = srmc.load(tmp_path / "r.nc")
    assert again.about == result.about
    assert again.draws.keys() == {"a", "b.c"}
    for name in ("a", "b.c"):
        np.testing.assert_array_equal(again.draws[name], result.draws[name])
    np.testing.assert_array_equal(again.base["a"], result.base["a"])
    np.testing.assert_array_equal(again.stats["exponent"], result.stats["exponent"])
    assert again.gradients == 600
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]


def test_what_is_no_result_is_refused(result, tmp_path):
    result.save(tmp_path / "r.nc")
    whole = (tmp_path / "r.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.nc").write_text("no")
    for name in ("half.nc", "text.nc"):
        with pytest.raises(ValueError, match="damaged, truncated or no result"):
            srmc.load(tmp_path / name)
    with pytest.raises(ValueError, match="path must be a file"):
        srmc.load(tmp_path / "absent.nc")
    with pytest.raises(ValueError, match="path must be a file in an existing folder"):
        result.save(tmp_path / "nowhere" / "r.nc")


def test_a_full_disk_leaves_the_old_file(result, tmp_path, monkeypatch):
    """The file that was there stays, and nothing half-written beside it."""
    path = tmp_path / "r.nc"
    path.write_text("old")

    def full(result):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(formats, "groups_of", full)
    with pytest.raises(OSError, match="No space left"):
        result.save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.nc"]


def test_summary_and_arviz_have_every_coordinate(result):
    summary = result.summary()
    assert list(summary.index[:2]) == ["a", "b.c[0,0]"]
    assert len(summary) == 7
    np.testing.assert_allclose(
        summary.loc["b.c[2,1]", "mean"], result.draws["b.c"][:, :, 2, 1].mean()
    )
    np.testing.assert_allclose(
        result.summary(base=True).loc["a", "mean"], summary["mean"]["a"] + 0.1
    )


@pytest.mark.filterwarnings("ignore")
def test_arviz_takes_it(result):
    data = result.to_arviz()
    assert data["posterior"]["b.c"].shape == (2, 100, 3, 2)
    assert json.loads(data.attrs["about"]) == result.about
    assert "exponent" in data["sample_stats"]


def test_it_draws_itself(result, tmp_path):
    result.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_summary_is_of_the_variables_and_quantiles_that_are_asked_for(result):
    found = result.summary(var_names="a", quantiles=(0.1, 0.975))
    assert list(found.index) == ["a"]
    np.testing.assert_allclose(
        found.loc["a", ["10%", "97.5%"]], np.quantile(result.draws["a"], (0.1, 0.975))
    )
    assert {"error_10%", "error_97.5%", "tail_k"} <= set(found.columns)
    assert len(result.summary(var_names=["b.c"])) == 6


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"base": "yes"}, "base must be"),
        ({"var_names": "c"}, "var_names must be among"),
        ({"var_names": 3}, "var_names must be a name"),
        ({"quantiles": (0.5, 1.2)}, "quantiles must be levels between 0 and 1"),
        ({"quantiles": (0.5, 0.5)}, "quantiles must differ"),
    ],
)
def test_a_summary_that_cannot_be_is_refused(result, asked, message):
    with pytest.raises((TypeError, ValueError), match=message):
        result.summary(**asked)


def test_a_summary_is_remembered(result, monkeypatch):
    first = result.summary()
    page = result._repr_html_()
    monkeypatch.setattr("srmc.results.errors.Errors.estimates", None)
    again = result.summary()
    assert again.equals(first)
    assert result._repr_html_() == page
    again["mean"] = 0.0  # a copy
    assert result.summary().equals(first)


def test_a_notebook_shows_the_rest_if_the_summary_fails(result, monkeypatch):
    def fails(*args):
        raise RuntimeError("no <summary>")

    monkeypatch.setattr("srmc.results.errors.Errors.estimates", fails)
    page = result._repr_html_()
    assert "m by nuts" in page
    assert "no &lt;summary&gt;" in page
    with pytest.raises(RuntimeError, match="no <summary>"):
        result.summary()
    assert set(result.draws) == {"a", "b.c"}


def test_a_probability_of_what_never_happened_has_an_error(result):
    mean, error = result.estimate(lambda draws: draws["a"] > 100)
    assert mean == 0
    assert error > 1 / 200


def test_a_function_of_several_parameters_is_regressed_itself():
    """Of eight normal coordinates the norm is no function that the moved draws are matched to."""
    off, norm = [], lambda v: np.sqrt(np.sum(v**2, axis=-1))
    for seed in range(12):
        x = np.random.default_rng(seed).gamma(3.0, size=(4, 250, 4))
        x = np.log(x).astype(np.float32)
        s = 3 - np.exp(x)
        moved, report = srmc.rebalance(x, scores=s, report=True)
        result = srmc.Result.of_rebalanced(moved, x, s, report)
        mean, error = result.estimate(lambda draws: norm(draws["x"]))
        off.append([mean - 2.17513, norm(x).mean() - 2.17513, error])
    own, plain, errors = np.sqrt(np.mean(np.square(off), axis=0))
    assert own < 0.5 * plain
    assert 0.2 < own / errors < 1.3
    assert errors < 0.6 * plain
