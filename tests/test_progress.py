"""Progress where there is no terminal, and in notebooks, without any more packages."""

import functools
import sys
import types

import srmc
from srmc import _progress
from srmc._progress import progress_bar


def test_words_where_there_is_no_terminal(capsys, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    with progress_bar() as show:
        show("warm-up", 0, None, "compiling")
        show("warm-up", 0, None, "1000 steps")
        show("warm-up", 1000, 1000, "step size 0.3")
        for done in range(0, 1001, 100):  # a second each
            show("sampling", done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "warm-up, compiling",
        "warm-up, 1000 steps",
        "warm-up 1000/1000, step size 0.3",
        "sampling 0/1000",
        "sampling 500/1000",
        "sampling 1000/1000",
    ]


def test_nothing_is_shown_if_nothing_is_asked_for(capsys):
    with progress_bar(False) as show:
        show("warm-up", 0, 10)
    assert capsys.readouterr() == ("", "")


def test_a_notebook_has_one_line_that_changes(monkeypatch, recwarn):
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    display = types.ModuleType("IPython.display")
    display.display = lambda data, raw, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(
        _progress, "Console", functools.partial(_progress.Console, force_jupyter=True)
    )
    with progress_bar() as show:
        show("warm-up", 100, 100)
        show("sampling", 20, 50)
    assert shown == ["warm-up 100/100", "warm-up 100/100; sampling 20/50"]
    assert not list(recwarn)


def test_a_run_says_when_it_compiles_and_when_it_steps(capsys):
    srmc.sample(srmc.targets.gaussian(2), num_warmup=100, num_samples=20, num_chains=2)
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["warm-up, compiling", "warm-up, 100 steps"]
    assert said[2].startswith("warm-up 100/100, step size")
    assert any(line.startswith("sampling 20/20") for line in said)
