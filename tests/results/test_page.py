"""The page of a run: every kind of result, as a parser and as a browser read it."""

import functools
import re
import shutil
import subprocess
from html.parser import HTMLParser

import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.rebalance.report import as_record, nothing
from srmc.results.kept import Kept
from srmc.results.page import page
from srmc.results.pair import pair_of
from srmc.results.result import Result

SMALL = {"num_warmup": 100, "num_samples": 100, "num_chains": 2, "progress": False}
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
VOID = {"meta"}


class Reader(HTMLParser):
    """Text and elements of a page, whose elements must all be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.cells = [], [], "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.text += data
        if self.open and self.open[-1] in ("th", "td"):
            self.cells.append(data)

    def count(self, tag, **attributes):
        return sum(t == tag and attributes.items() <= a.items() for t, a in self.elements)


def normal(x):
    return -0.5 * x["a & <b>"] ** 2 - 0.5 * jnp.sum((x["c"] - x["a & <b>"]) ** 2)


@functools.cache
def run_of(kind):
    """A run of each kind, made where a test needs it."""
    if kind == "resampled":
        ising = srmc.targets.ising(srmc.targets.lattice(2, 2))
        return srmc.sample(ising, kernel="gibbs", **SMALL)
    start = {"a & <b>": 0.0, "c": np.zeros((2, 2), np.float32)}
    run = SMALL | {"initial_position": start, "kernel": "mala"}
    run |= {
        "rebalanced": {},
        "plain": {"alpha": 0, "num_chains": 1},
        "moments": {"keep": "moments", "base": True},
    }[kind]
    return srmc.sample(normal, **run)


def made_up(d=3, draws=50, chains=2, base=True, **about):
    """A result that no run made, with odd statistics."""
    rng = np.random.default_rng(0)
    shape = (chains, draws)
    names = ("acceptance_rate", "diverging", "alpha", "gradients", "is_finite", "is_hot")
    stats = {name: np.zeros(shape) for name in (*names, "exponent", "is_stable", "theta_norm")}
    stats["acceptance_rate"] += np.nan
    stats["gradients"] -= 1
    stats["diverging"][0, 3] = 1
    x = rng.normal(size=(*shape, d))
    settings = {"model": "made up", "kernel": "mh", "alpha": 0.0, "num_warmup": 100}
    settings |= {"num_samples": draws, "num_chains": chains, "seed": 7, "keep": "draws", "thin": 1}
    record = {"settings": settings, "num_draws": draws, "gradients_of_warmup": 1, "seconds": 1.0}
    return Result(Kept(stats, {"x": x}, {"x": x} if base else None), record | about)


@pytest.mark.parametrize("kind", ["rebalanced", "plain", "moments", "resampled"])
def test_a_page_for_every_kind_of_run(kind, tmp_path):
    result = run_of(kind)
    result.report(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    read = Reader(text)
    assert not re.search(r"(src|href)=|url\(|<script|@import", text)
    for heading in ("Estimates", "Chains", "How to repeat it", "cost"):
        assert heading in read.text
    for name in result.summary().index:
        assert name in read.cells
    if kind != "resampled":
        assert "<b>" not in text
        assert "a &amp; &lt;b&gt;" in text
    assert f'"{result.about["settings"]["kernel"]}"' in read.text
    assert result.about["versions"]["jax"] in read.cells
    assert ("The squared errors to expect" in read.text) == (kind in ("rebalanced", "resampled"))
    assert ("plain mean" in read.cells) == (kind in ("rebalanced", "moments", "resampled"))
    charts = min(40, len(result.summary())) * (1 if kind == "moments" else 2)
    assert read.count("svg", role="img") == charts
    first = "Before you trust it" if result.warnings else "Trust it"
    assert read.text.index(first) < read.text.index("Estimates")
    assert read.count("button") >= 1


def test_a_loaded_result_has_the_same_page(tmp_path):
    run_of("rebalanced").save(tmp_path / "r.nc")
    assert page(srmc.load(tmp_path / "r.nc")) == page(run_of("rebalanced"))


def test_estimates_are_those_of_the_summary():
    result = run_of("rebalanced")
    row = result.summary().loc["c[1,0]"]
    plain = result.summary(base=True).loc["c[1,0]"]
    cells = Reader(page(result)).cells
    shown = cells[cells.index("c[1,0]") + 1 :][:2]
    for text, side in zip(shown, (row, plain), strict=True):
        value, error = (float(part.replace("\N{MINUS SIGN}", "-")) for part in text.split(" ± "))
        assert value == pytest.approx(side["mean"], abs=side["error"] / 10)
        assert error == pytest.approx(side["error"], rel=0.06)


def test_a_long_page_is_cut_and_says_so():
    read = Reader(page(made_up(d=300, chains=30, draws=310)))
    for words in (
        "The first 100 of 300 coordinates are in this table.",
        "The first 40 of 300 coordinates are shown.",
        "The first 20 of 30 chains are shown.",
        "one draw in 2 of the first 4 chains",
    ):
        assert words in read.text
    assert read.count("svg", role="img") == 80


def test_what_is_unknown_is_said_to_be():
    read = Reader(page(made_up()))
    assert read.cells.count("unknown") >= 3  # acceptance of two chains and gradients
    assert "draws after a divergence" in read.text
    result = made_up(warnings=["<script>alert(1)</script> is no name"])
    result.interrupted = True
    result.kept.draws["x"][:, :, 0] = np.nan
    result.kept.draws["x"][:, :, 1] = 2.0
    text = page(result)
    assert "<script" not in text
    read = Reader(text)
    assert "2 warnings" in read.text
    assert "The run was stopped before its end" in read.text


def test_learned_coordinates_are_explained():
    found = ["the scale of x[1] follows x[0] (explains 95%)"]
    learned = {"kind": "learned", "found": found, "divergence": [12.0, 0.3]}
    text = Reader(page(made_up(coordinates=learned))).text
    assert "The scale of x[1] follows x[0]" in text
    assert "fell from 12 to 0.3" in text
    assert "Learned coordinates" not in Reader(page(made_up())).text


def test_the_strongest_pair_is_drawn_before_and_after():
    learned = {"kind": "learned", "found": [], "divergence": [12.0, 0.3]}
    pair = {"x[1]": 1, "x[0]": 0}
    u = np.random.default_rng(2).normal(size=(2, 600, 3))
    run = made_up(draws=600, coordinates=learned | {"pair": pair})
    kept = run.kept._replace(draws={"x": u}, base={"x": u}, scored={"position": u, "score": -u})
    run = Result(kept, run.about)
    found = pair_of(run)
    assert found.names == ("x[1]", "x[0]")
    np.testing.assert_array_equal(found.after, u.reshape(-1, 3)[::2, [1, 0]])
    assert Reader(page(run)).count("path", **{"class": "dots"}) == 2
    titles = [axis.get_title() for axis in run.plot(what="coordinates").axes]
    assert titles == ["in the model's parameters", "in learned coordinates"]
    with pytest.raises(ValueError, match="learned coordinates"):
        made_up().plot(what="coordinates")
    with pytest.raises(ValueError, match="what must be"):
        made_up().plot(what="pairs")


def test_the_result_of_rebalance_has_a_page():
    x = np.random.default_rng(1).normal(size=(2, 50, 2))
    text = page(Result.of_rebalanced(x, x, -x, nothing("of a test")))
    assert "of a test" in Reader(text).text


def test_each_chain_has_its_row():
    reports = [as_record(nothing("")) for _ in range(2)]
    cells = Reader(page(made_up(rebalancing=reports))).cells
    assert [c for c in cells if c.startswith("chain ")] == 2 * ["chain 0", "chain 1"]


def test_the_page_needs_a_folder(tmp_path):
    with pytest.raises(ValueError, match="path must be a file in an existing folder"):
        made_up().report(tmp_path / "nowhere" / "run.html")


@pytest.mark.skipif(BROWSER is None, reason="no browser")
@pytest.mark.parametrize("width", [400, 1400])
def test_a_browser_shows_it_without_scrolling_sideways(width, tmp_path):
    """Only tables scroll, each in its own box, and nothing is wrong on the way."""
    wide = made_up(d=12, warnings=["a" * 300])
    wide.kept = wide.kept._replace(draws={"n" * 80: wide.draws["x"]}, base=None)
    probe = (
        "<script>const d = document, e = d.documentElement;"
        "d.title = [e.scrollWidth <= e.clientWidth, d.querySelectorAll('svg').length,"
        "[...d.querySelectorAll('.scroll')].some(b => b.scrollWidth > b.clientWidth),"
        "[...d.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 50)]"
        ".join(' ');</script>"
    )
    (tmp_path / "run.html").write_text(page(wide).replace("</body>", probe + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--no-first-run", "--disable-component-update", "--disable-sync", "--dump-dom"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]
    out = subprocess.run(
        [BROWSER, *flags, (tmp_path / "run.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", out.stdout).group(1)
    assert title == "true 24 true true"
