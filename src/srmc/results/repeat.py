"""How to repeat a run: its settings as a call or a command, and the versions that made it."""

from collections.abc import Iterator
from typing import Any

from srmc.results.charts import Markup, table, tag
from srmc.results.result import Result

# Settings that are repeated whatever their value, and those that are only if they were given.
ALWAYS = ("kernel", "alpha", "num_warmup", "num_samples", "num_chains", "seed", "shared_history")
IF_GIVEN = ("chains", "target_error", "step_size", "num_integration_steps", "space", "repellence")
DEFAULTS = {"coordinates": "auto", "thin": 1, "keep": "draws", "base": False}


def how_to_repeat(result: Result) -> Iterator[Markup]:
    """The section of a page."""
    about = result.about
    yield tag("h2", "How to repeat it")
    if "command" in about:
        yield from _copied(about["command"])
    if "settings" in about:
        yield from _copied(call(about))
        yield tag("p", "It needs the same model, data, starting points and versions:")
    if "versions" in about:
        yield table([], list(about["versions"].items()))


def _copied(code: str) -> Iterator[Markup]:
    """Code below a button that copies it, for which no network or permission is needed."""
    copy = (
        "getSelection().selectAllChildren(this.nextElementSibling);"
        "document.execCommand('copy');this.textContent='Copied'"
    )
    yield tag(
        "div", tag("button", "Copy", type_="button", onclick=copy), tag("pre", code), class_="code"
    )


def call(about: dict[str, Any]) -> str:
    """The call of `srmc.sample` that has these settings."""
    settings = about["settings"]
    given = {k: settings[k] for k in ALWAYS if k in settings}
    given |= {k: settings[k] for k in IF_GIVEN if settings.get(k) is not None}
    given |= {k: settings[k] for k, usual in DEFAULTS.items() if settings.get(k, usual) != usual}
    lines = [f"    {name}={_written(name, value)},\n" for name, value in given.items()]
    x64 = about.get("double_precision")
    head = (
        'import jax, srmc\n\njax.config.update("jax_enable_x64", True)\n'
        if x64
        else "import srmc\n\n"
    )
    return f"{head}srmc.sample(\n    model,  # {settings['model']}\n{''.join(lines)})"


def _written(name: str, value: Any) -> str:
    if name == "space":
        return f"srmc.{value}"
    if name == "alpha" and isinstance(value, str) and value != "auto":
        return value  # a schedule in words
    if name == "repellence":
        return "{" + ", ".join(f'"{k}": {v}' for k, v in value.items()) + "}"
    return f'"{value}"' if isinstance(value, str) else repr(value)
