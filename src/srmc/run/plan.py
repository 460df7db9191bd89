"""What was asked of `srmc.sample`, and whether it can be done."""

from typing import Any, NamedTuple

from srmc._checks import check_count, check_number, check_option
from srmc.discrete.space import Space
from srmc.tune import continuous as _tune
from srmc.tune import discrete as _tune_sites


class Plan(NamedTuple):
    """What was asked for."""

    kernel: str
    alpha: Any
    num_warmup: int
    num_samples: int
    num_chains: int
    seed: int
    step_size: float | None
    num_integration_steps: int | None
    shared_history: bool
    thin: int
    keep: str
    base: bool
    repellence: dict[str, Any] | None
    space: Space | None = None

    @property
    def num_draws(self) -> int:
        """Draws a chain that are kept."""
        return self.num_samples // self.thin

    def settings(self) -> dict[str, Any]:
        """The same in plain words, for files."""
        given = self.repellence
        words = None if given is None else {k: str(v) for k, v in given.items()}
        space = None if self.space is None else str(self.space)
        return self._asdict() | {"repellence": words, "space": space}


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be done, by name."""
    space = plan.space
    if space is None and plan.kernel in _tune_sites.RECIPES:
        raise ValueError(
            f"kernel {plan.kernel!r} is for discrete spaces; say which with space, such as "
            "srmc.Binary()"
        )
    where = "" if space is None else f" on {space}"
    check_option(f"kernel{where}", plan.kernel, (_tune if space is None else _tune_sites).RECIPES)
    check_option("keep", plan.keep, ("draws", "moments", "covariance"))
    if isinstance(plan.alpha, str):
        check_option("alpha", plan.alpha, ("auto",))
    else:
        check_number("alpha", plan.alpha, at_least=0.0)
    check_count("num_warmup", plan.num_warmup, at_least=100)
    for name in ("num_samples", "num_chains", "thin"):
        check_count(name, getattr(plan, name))
    check_count("seed", plan.seed, at_least=0)
    if plan.thin > plan.num_samples:
        raise ValueError(f"thin must be at most num_samples, {plan.num_samples}, got {plan.thin}")
    if plan.step_size is not None:
        check_number("step_size", plan.step_size, above=0.0)
        if space is not None and plan.kernel != "dlp":
            raise ValueError(f"step_size is for kernel 'dlp'{where}, got {plan.kernel!r}")
    if plan.num_integration_steps is not None:
        check_count("num_integration_steps", plan.num_integration_steps)
        if plan.kernel not in ("hmc", "jittered_hmc"):
            raise ValueError(
                f"num_integration_steps is for kernel 'hmc' and 'jittered_hmc', got {plan.kernel!r}"
            )
    for name in ("shared_history", "base"):
        if not isinstance(getattr(plan, name), bool):
            raise TypeError(f"{name} must be True or False, got {getattr(plan, name)!r}")
    given = plan.repellence
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"repellence must be a dict of keywords of repel, got {given!r}")
    if plan.base and space is not None:
        raise ValueError("base=True needs a continuous kernel; here no base chain is run")
    if plan.base and given is not None and given.get("frame") != "moving":
        raise ValueError("base=True needs frame='moving' in repellence; else no base chain is run")
