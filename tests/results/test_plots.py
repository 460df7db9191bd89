"""What a person sees of a result: a picture, a line, a table."""

import numpy as np
import pytest

import srmc
from srmc.rebalance.report import Report, as_record
from srmc.results.kept import Kept
from srmc.results.plots import coordinates, plot
from srmc.results.result import Result

RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(4, 300, 6))
PLAIN[:, :, :2] = 1.0  # pixels that are always on
MOVED = PLAIN + 0.1 * (PLAIN != 1.0)


def result(alpha=0.0, **changes):
    stats = {"alpha": np.full((4, 300), alpha), "gradients": np.full((4, 300), 7)}
    stats |= {"acceptance_rate": RNG.random((4, 300)), "theta_norm": RNG.random((4, 300))}
    stats["exponent"] = RNG.random((4, 300))
    about = {
        "settings": {"model": "m", "kernel": "nuts"},
        "num_draws": 300,
        "rebalancing": [as_record(Report(moved=True))],
    }
    kept = Kept(stats=stats, draws={"x": MOVED}, base={"x": PLAIN})
    return Result(kept._replace(**changes), about)


def titles(figure):
    return [axis.get_title() for axis in figure.axes if axis.get_visible()]


def test_constant_coordinates_are_skipped_and_all_chains_are_drawn():
    shown = result()
    assert list(coordinates(shown)) == ["x[2]", "x[3]", "x[4]"]
    trace = plot(shown).axes[0]
    assert len(trace.lines) == 4
    np.testing.assert_array_equal(trace.lines[3].get_ydata(), MOVED[3, :, 2])


def test_densities_are_before_and_after_and_means_have_bands():
    figure = plot(result())
    density, running = figure.axes[1:3]
    plain, moved = (line.get_xydata() for line in density.lines)
    top = lambda line: line[np.argmax(line[:, 1]), 0]
    assert top(moved) - top(plain) == pytest.approx(0.1, abs=0.05)
    assert len(running.collections) == 2
    for band, side in zip(running.collections, (PLAIN, MOVED), strict=True):
        edge = band.get_paths()[0].vertices
        last = edge[edge[:, 0] == 300, 1]
        mean = side[:, :, 2].mean()
        assert last.min() < mean < last.max()
        wide = np.ptp(edge[edge[:, 0] == 31, 1])
        assert wide > 2 * np.ptp(last)


def test_a_statistic_that_never_changes_has_no_panel():
    assert "gradients per draw" not in titles(plot(result()))
    assert "acceptance" in titles(plot(result()))
    repelled = titles(plot(result(alpha=1.0)))
    assert "α" not in repelled
    assert "|θ|" in repelled


def test_a_run_that_never_moved_says_so():
    still = {"x": np.ones((4, 300, 2))}
    figure = plot(result(draws=still, base=still))
    assert "no coordinate varies" in figure.get_suptitle()


def test_values_of_a_discrete_space_have_frequencies():
    draws = {"x": (RNG.random((4, 300, 1)) < 0.25).astype(float)}
    density = plot(result(draws=draws, base=None)).axes[1]
    heights = [segment[1][1] for segment in density.collections[0].get_segments()]
    assert heights == pytest.approx([0.75, 0.25], abs=0.05)


def test_a_notebook_gets_an_image_and_a_table():
    shown = result()
    assert shown.plot()._repr_png_().startswith(b"\x89PNG")
    assert repr(shown) == ("<srmc.Result: m by nuts, 4 chains of 300 draws, rebalanced, of x>")
    shown.about["warnings"] = ["mind <this>"]
    shown.interrupted = True
    page = shown._repr_html_()
    assert "mind &lt;this&gt;" in page
    assert "x[5]" in page
    assert repr(shown).endswith("of x, interrupted, 1 warning>")


def test_moments_have_a_picture_and_a_line():
    run = srmc.sample(
        srmc.targets.gaussian(2),
        keep="moments",
        num_warmup=100,
        num_samples=100,
        num_chains=2,
        progress=False,
    )
    assert "of which moments were kept" in repr(run)
    assert "running mean, 95% band" in titles(run.plot())
