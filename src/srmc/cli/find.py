"""Find what the command line samples from: a built-in target, or a model in a Python file."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

import srmc
from srmc.cli.terminal import complaints
from srmc.targets import BUILT_IN, Moments, Target


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
