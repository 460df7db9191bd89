"""The samplers of one problem, compared at equal steps, gradients or processor time."""

from collections.abc import Mapping

import numpy as np

from srmc.types import Float
from srmc_studies.paper import _numbers
from srmc_studies.paper._derivatives import reading as rule_reading
from srmc_studies.paper._families import ALPHAS, CurveKey, Curves
from srmc_studies.paper._ledger import Estimate
from srmc_studies.paper._problems import Block, diverged, problem, title


def views(found: Mapping[Block, Curves]) -> list[str]:
    """What errors are compared at equal amounts of; times are not measured in the quick form."""
    timed = all(curve.seconds is not None for curves in found.values() for curve in curves.values())
    return ["steps", "gradients", *(["processor time"] if timed else [])]


class Comparison:
    """The samplers of one problem, of which those that are repelled go by one rule.

    `rule` is that of the derivative, unless another `reading` is given.
    """

    def __init__(
        self, block: Block, curves: Curves, size: str, rule: str, reading: str = ""
    ) -> None:
        self.name = title(block)
        self.curves = curves
        self.problem = problem(block, size)
        self.rule = rule
        self.reading = reading or rule_reading(rule)
        self.views = views({block: curves})

    def key(self, alpha: float) -> CurveKey:
        """The curve of this alpha."""
        return (self.rule, alpha) if alpha else "plain"

    def errors(self, alpha: float, view: str = "steps") -> Float[np.ndarray, " replicate"]:
        """Errors when as much was spent as by the plain sampler in its whole run."""
        spent = self.curves["plain"].cost(view)[-1]
        return self.curves[self.key(alpha)].at(view, spent)

    def best(self, view: str = "steps") -> float:
        """The printed alpha with the lowest error, or 0 if the plain sampler has it."""
        return min((0.0, *ALPHAS), key=lambda a: _numbers.mean_or_inf(self.errors(a, view)))

    def below(self, first: float, second: float, view: str = "steps") -> bool:
        """Whether the error with one alpha is below that with another, by two standard errors."""
        limit = self.problem.truth.variance
        return _numbers.below(self.errors(first, view), self.errors(second, view), limit)

    def helps(self, alpha: float, view: str = "steps") -> bool:
        """Whether the error with an alpha is below the plain one, by two standard errors."""
        return self.below(alpha, 0.0, view)

    def lost(self, alpha: float) -> float:
        """The share of runs that diverged."""
        return float(np.mean(diverged(self.errors(alpha), self.problem)))

    def ratio(self, view: str = "steps") -> Estimate:
        """The MSE of the best printed alpha over that of the plain sampler."""
        return _numbers.ratio(self.errors(self.best(view), view), self.errors(0.0, view))

    def gain(self, view: str = "steps") -> float:
        """The factor by which the best printed alpha reduces the error."""
        return 1 / self.ratio(view).value

    def overhead(self, view: str) -> float:
        """What a repelled step costs, in units of a plain one."""
        each = (self.curves[self.key(a)] for a in (1.0, 0.0))
        repelled, plain = (float(c.cost(view)[-1] / c.steps[-1]) for c in each)
        return repelled / plain

    def ours(self) -> dict[str, Estimate]:
        """The errors of all printed alphas, and of control variates."""
        out = {"MSE, plain": _numbers.mean(self.errors(0.0))}
        out |= {f"MSE, alpha = {a:g}": _numbers.mean(self.errors(a)) for a in ALPHAS}
        if "plain, control variates" in self.curves:
            controls = self.curves["plain, control variates"].last
            out["MSE, plain with control variates"] = _numbers.mean(controls)
        return out

    def why(self) -> str:
        """What was seen of gain, cost and divergence."""
        lost = [f"{self.lost(a):.0%} at alpha = {a:g}" for a in ALPHAS if self.lost(a) > 0]
        gains = (
            f"{self.gain(view):.2g} (alpha = {self.best(view):g}) at equal {view}"
            for view in self.views
        )
        return (
            f"The best alpha reduces the error by factors of {', '.join(gains)}; a repelled step "
            f"costs {self.overhead('gradients'):.2g} times as many gradients as a plain one. "
            + (f"Share of diverged runs: {', '.join(lost)}." if lost else "No run diverged.")
        )
