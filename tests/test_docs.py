"""The documentation: its code runs, its links lead somewhere, and its reference is complete."""

import ast
import csv
import importlib
import importlib.util
import re
import sys
import types
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import srmc
from fake_stan import FakeStan

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
# Run by other tests, which also look at what the code finds.
ELSEWHERE = {
    *(f"explanation/{name}.md" for name in ("discrete", "fields", "rebalance", "theory")),
    *(f"howto/{name}.md" for name in ("improve", "sampling", "tempering")),
}
HERE = [name for name in PAGES if BLOCK.search(PAGES[name]) and name not in ELSEWHERE]
NEEDS = {"tutorials/pymc.md": "pymc", "tutorials/numpyro.md": "numpyro", "images.md": "equinox"}


@pytest.fixture
def anywhere(tmp_path, monkeypatch):
    """A folder of its own, a fake of BridgeStan, and the precision taken back."""
    monkeypatch.chdir(tmp_path)
    model = lambda *files: FakeStan(1.0, np.array([2.0, 3.0, 4.0]))
    monkeypatch.setitem(sys.modules, "bridgestan", types.SimpleNamespace(StanModel=model))
    before = jax.config.read("jax_enable_x64")
    with jax.numpy_rank_promotion("allow"):
        yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("page", HERE)
def test_the_page_runs(page):
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
        if NEEDS[page] == "pymc":  # as its first import in a process does
            jax.config.update("jax_enable_x64", True)
    scope: dict = {}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", UserWarning)
        for block in BLOCK.findall(PAGES[page]):
            exec(block, scope)
    if page.startswith("tutorials/"):
        assert not [text for w in seen if "BLAS" not in (text := str(w.message))]
    # means of a funnel have no error
    if "result" in scope and page != "explanation/coordinates.md":
        assert np.isfinite(scope["result"].summary()["error"]).all()
    if page == "tutorials/first-run.md":
        error, plain = (scope["result"].summary(base=base)["error"] for base in (False, True))
        assert (error < 0.8 * plain).all()
        assert Path("run.html").exists()


def test_links_lead_somewhere():
    for name, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            if "reference/" in target:
                continue  # made by the site
            assert (DOCS / name).parent.joinpath(target).exists(), (name, target)


def test_every_page_is_in_the_navigation():
    nav = (DOCS.parent / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w/-]+\.md", nav)) == sorted(
        PAGES.keys() - {"reference/command-line.md"}
    )


def of_the_site(name):
    """A module in docs/site."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_name():
    reference = of_the_site("reference")
    packages = reference.packages()
    shown = {name for names in packages.values() for name in names}
    for name in srmc.__all__:
        assert f"srmc.{name}" in shown or name in packages, name
    for package in packages.keys() - {"plugins"}:
        for name in getattr(importlib.import_module(f"srmc.{package}"), "__all__", ()):
            assert f"srmc.{package}.{name}" in shown or f"srmc.{name}" in shown, name
    assert {"srmc.plugins.pymc.sample", "srmc.plugins.numpyro.Repelled"} <= shown


def test_the_index_has_a_line_for_each_name():
    reference = of_the_site("reference")
    index, found = reference.index(reference.packages()), reference.packages()
    lines = re.findall(r"^\| \[`(.*?)`\]\((\w+)\.md#(.*?)\) \| (.+) \|$", index, re.MULTILINE)
    assert sorted(name for name, *_ in lines) == sorted(
        name for names in reference.TASKS.values() for name in names
    )
    for name, page, place, text in lines:
        assert found[page][name] == place
        assert 10 < len(text) < 110, (name, text)


def test_the_page_of_the_command_line_is_current():
    assert of_the_site("commands").page() == PAGES["reference/command-line.md"]


def constants(node):
    """The constant parts of a text."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.Constant)]
    return constants(node.left) + constants(node.right) if isinstance(node, ast.BinOp) else []


def names(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def warnings_of_the_library():
    """The longest constant part of each warning, and of each reason to leave draws alone."""
    calls = ("warnings.warn", "told.append", "found.append", "nothing", "self._warn")
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            text = None
            if isinstance(node, ast.Call) and ast.unparse(node.func) in calls and node.args:
                text = None if "DeprecationWarning" in ast.unparse(node) else node.args[0]
            elif isinstance(node, ast.Yield) and path.stem == "trouble":
                text = node.value
            elif isinstance(node, ast.List) and path.stem == "precision" and node.elts:
                text = node.elts[0]
            elif path.stem == "check" and isinstance(node, ast.If) and "failed" in names(node.test):
                text = node.body[-1].value
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "store.lost":
                text = node.value
            parts = [part.strip(" .,;:()") for part in constants(text)]
            if parts and " " in max(parts, key=len):
                yield path.stem, max(parts, key=len)


def test_troubleshooting_has_an_entry_for_each_warning():
    page = " ".join(PAGES["help/troubleshooting.md"].split())
    found = list(warnings_of_the_library())
    assert len(found) > 30
    missing = [(module, text) for module, text in found if " ".join(text.split())[:60] not in page]
    assert not missing, missing[0]


SOURCES = sorted((DOCS.parent / "src" / "srmc").rglob("*.py"))
SECTION = re.compile(r"Parameters\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", re.DOTALL)


def test_each_parameter_has_an_entry_of_its_own():
    """The site takes the default of an entry from the signature, by the first name in it."""
    for node in (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))):
        if not isinstance(node, ast.FunctionDef) or not ast.get_docstring(node):
            continue
        known = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        known += [arg for arg in (node.args.vararg, node.args.kwarg) if arg]
        names = {arg.arg for arg in known} - {"self", "gone"}
        for section in SECTION.findall(ast.get_docstring(node)):
            entries = [line.lstrip("*") for line in section.splitlines() if re.match(r"\S", line)]
            assert {*entries} == names, (node.name, names.symmetric_difference(entries))


def test_long_tables_are_offered_as_csv():
    tables = of_the_site("tables")
    text = PAGES["evidence/noharm.md"]
    first = tables.long_tables(text, "evidence/noharm.md")[0]
    rows = tables.as_csv(first).splitlines()
    assert rows[0].startswith("kernel,target,gradients,mean")
    assert len(rows) == first.count("\n") - 1 > tables.LONG
    assert len({len(row) for row in csv.reader(rows)}) == 1
    assert not tables.long_tables(PAGES["reference/command-line.md"], "reference/command-line.md")


def test_the_paper_cites_what_its_bibliography_has():
    paper, known = ((DOCS.parent / name).read_text() for name in ("paper.md", "paper.bib"))
    cited = set(re.findall(r"@([a-z]+)", paper))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", known, re.MULTILINE))
    assert len(paper.split()) < 1000


def test_outputs_are_printed_again():
    """Blocks keep their state, output is shared out over fences, and other blocks stay."""
    outputs = of_the_site("outputs")
    page = (
        "```python\nx = 1\nprint(x)\n```\n\n```\nold\n```\n\n"
        "```python\nprint(x + 1)\nprint()\nprint(3)\n```\n\n"
        "first:\n\n```\na\nb\n```\n\n```\nc\n```\n\n"
        "```python\nprint('one line')\n```\n\n```\ntwo\nlines\n```\n"
    )
    new = outputs.renewed(page)
    assert new == page.replace("old", "1").replace("a\nb", "2\n").replace("\nc\n", "\n3\n")
