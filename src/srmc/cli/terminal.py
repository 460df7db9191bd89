"""What commands share: finding a model, printing, and reporting errors."""

import importlib.util
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import typer
from rich.console import Console
from rich.markup import escape

import srmc
from srmc._checks import printable
from srmc.targets import BUILT_IN, Moments, Target

OURS = Path(srmc.__file__).parent
console = Console()
complaints = Console(stderr=True)


def caution(told: list[str]) -> None:
    """Print warnings."""
    for text in told:
        complaints.print(f"[bold yellow]warning:[/] {escape(printable(text))}", highlight=False)


def fail(error: Exception, code: int = 2) -> NoReturn:
    """Report an error and exit; with the lines of the user's own code that led to it, if any did.

    An error that was raised neither there nor in srmc is shown with its whole traceback.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if frames and not _is_in(frames[-1], OURS):
        own = _of_the_user(frames)
        text = traceback.format_list(own) if own else traceback.format_exception(error)
        if isinstance(error, SyntaxError):
            text = traceback.format_exception_only(error)
        complaints.print("".join(text), end="", markup=False, highlight=False, soft_wrap=True)
    what = (
        "" if isinstance(error, ValueError | TypeError | OSError) else type(error).__name__ + ": "
    )
    said = escape(printable(str(error)))  # which may quote a file
    complaints.print(f"[bold red]error:[/] {what}{said}", highlight=False)
    raise typer.Exit(code)


def _of_the_user(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames of what srmc called that are in no library."""
    first = next((n for n, frame in enumerate(frames) if _is_in(frame, OURS)), len(frames))
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    return [
        frame
        for frame in frames[first:]
        if not frame.filename.startswith("<") and not _is_in(frame, OURS, *libraries)
    ]


def _is_in(frame: traceback.FrameSummary, *folders: Path) -> bool:
    return any(folder in Path(frame.filename).parents for folder in folders)


def find_model(name: str) -> tuple[srmc.Model, Any]:
    """The model of this name, and the `initial_position` that its file defines."""
    if name in BUILT_IN:
        return srmc.Model(BUILT_IN[name]()), None
    if ":" not in name:
        raise ValueError(
            f"target must be one of {', '.join(BUILT_IN)}, or file.py:name, got {name!r}"
        )
    module, attribute = load_file("target", name)
    file = name.rpartition(":")[0]
    model, start = getattr(module, attribute), getattr(module, "initial_position", None)
    parts = {k: getattr(module, k) for k in ("data", "space", "differences") if hasattr(module, k)}
    if "space" in parts or not callable(model) or _is_density(model, start):
        parts.pop("data", None)  # which it reads itself, unlike a NumPyro model
    if not isinstance(parts.get("data", ()), tuple | dict):
        raise ValueError(
            f"target {name!r}: a log density needs a start, so that {file} must define "
            "initial_position; for a NumPyro model, data must be a tuple or a dictionary"
        )
    return srmc.Model(model, **parts), start


def load_file(what: str, name: str) -> tuple[ModuleType, str]:
    """The module that file.py:name is in, and the name, which it has."""
    file, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"{what} must be file.py:name, got {name!r}")
    if not Path(file).is_file():
        raise ValueError(f"{what} {name!r}: there is no file {file}")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{what} {name!r}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(Path(file).parent))
    spec.loader.exec_module(module)
    if not hasattr(module, attribute):
        raise ValueError(f"{what} {name!r}: {file} has nothing named {attribute!r}")
    return module, attribute


def _is_density(model: Any, start: Any) -> bool:
    """Whether it can be called at the start; a NumPyro model has neither a key nor its data."""
    if isinstance(start, list):
        start = start[0]
    try:
        at = start(jax.random.key(0)) if callable(start) else start
        return bool(jnp.shape(model(at)) == ())
    except Exception:  # of a NumPyro model, or an error that sampling will name
        return False


def truth_of(model: srmc.Model) -> Moments | None:
    """The moments of a built-in target."""
    if not isinstance(model.model, Target):
        return None
    with complaints.status("moments of the target"):
        return model.model.moments
