"""The ledger rows of figure 2: which alpha is best at equal steps and at equal gradients."""

import jax
import numpy as np

from srmc._types import Float
from srmc.paper import _numbers
from srmc.paper._families import ALPHAS, CurveKey, Curves
from srmc.paper._ledger import NOT_IN_THE_PAPER, Estimate, Row
from srmc.paper._problems import Block, diverged, problem, title
from srmc.targets import Target

VIEWS = ("steps", "gradients")


def rows(found: dict[Block, Curves], size: str) -> list[Row]:
    """All rows; self-tuned samplers have a row where they were run."""
    each = {block: _Comparison(block, curves, size) for block, curves in found.items()}
    return [
        _overall(each),
        _gaussian_mala(each["gaussian", "mala"], each["gaussian", "hmc"]),
        _gaussian_hmc(each["gaussian", "hmc"]),
        _logistic_mala(each["logistic", "mala"]),
        _logistic_hmc(each["logistic", "hmc"]),
        _condition(each["gaussian", "mala"].problem.target),
        _acceptance(each),
        *(_self_tuned(block) for block in each.values() if "self-tuned" in block.curves),
    ]


class _Comparison:
    """The samplers of one problem, compared at equal steps or at equal gradients."""

    def __init__(self, block: Block, curves: Curves, size: str) -> None:
        self.name = title(block)
        self.curves = curves
        self.problem = problem(block, size)

    def errors(self, key: CurveKey, view: str = "steps") -> Float[np.ndarray, " replicate"]:
        """Errors of a sampler after as many steps or gradients as the plain one has made."""
        curve = self.curves[key]
        if view == "steps":
            return curve.last
        return curve.at_gradients(self.curves["plain"].gradients[-1])

    def best(self, view: str = "steps") -> float:
        """The printed alpha with the lowest error, or 0 if the plain sampler has it."""
        means = {a: self._mean(_key(a), view) for a in (0.0, *ALPHAS)}
        return min(means, key=lambda a: means[a])

    def _mean(self, key: CurveKey, view: str) -> float:
        return _numbers.mean_or_inf(self.errors(key, view))

    def below(self, first: CurveKey, second: CurveKey, view: str = "steps") -> bool:
        """Whether the error of one is below that of another, by two standard errors."""
        limit = self.problem.truth.variance
        return _numbers.below(self.errors(first, view), self.errors(second, view), limit)

    def helps(self, alpha: float, view: str = "steps") -> bool:
        """Whether the error with an alpha is below the plain one, by two standard errors."""
        return self.below(_key(alpha), "plain", view)

    def lost(self, alpha: float) -> float:
        """The share of runs that diverged."""
        return float(np.mean(diverged(self.curves["fixed", alpha].last, self.problem)))

    def ours(self) -> dict[str, Estimate]:
        """The errors of all printed alphas, and of control variates."""
        out = {"MSE, plain": _numbers.mean(self.errors("plain"))}
        out |= {f"MSE, alpha = {a:g}": _numbers.mean(self.errors(("fixed", a))) for a in ALPHAS}
        controls = self.curves["plain, control variates"].last
        return out | {"MSE, plain with control variates": _numbers.mean(controls)}

    def gain(self, view: str = "steps") -> float:
        """The factor by which the best printed alpha reduces the error."""
        return self._mean("plain", view) / self._mean(_key(self.best(view)), view)

    def why(self) -> str:
        """What was seen of gain, cost and divergence."""
        lost = [f"{self.lost(a):.0%} at alpha = {a:g}" for a in ALPHAS if self.lost(a) > 0]
        cost = self.curves["fixed", 1.0].gradients[-1] / self.curves["plain"].gradients[-1]
        return (
            f"The best alpha reduces the error by a factor of {self.gain():.2g} at equal steps and "
            f"of {self.gain('gradients'):.2g} at equal gradients; a repelled step costs {cost:.2g} "
            "times as many gradients as a plain one. "
            + (f"Share of diverged runs: {', '.join(lost)}." if lost else "No run diverged.")
        )


def _key(alpha: float) -> CurveKey:
    return ("fixed", alpha) if alpha else "plain"


def _overall(each: dict[Block, _Comparison]) -> Row:
    settings = [(block, a) for block in each.values() for a in ALPHAS]
    share = {
        view: _numbers.share(np.array([block.helps(a, view) for block, a in settings]))
        for view in VIEWS
    }
    worse = [(block, a) for block, a in settings if block.below("plain", ("fixed", a))]
    return Row(
        "sec:exp_continuous",
        "Overall, SRMC improves upon the baseline across most settings, also after its cost",
        "most settings",
        {f"share of settings below plain at equal {view}": e for view, e in share.items()},
        {
            f"more than half of the settings are below plain at equal {view}": e.value > 0.5
            for view, e in share.items()
        },
        f"At equal steps {len(worse)} of {len(settings)} settings are worse than plain by two "
        "standard errors: "
        + ("; ".join(f"{block.name}, alpha = {a:g}" for block, a in worse) or "none")
        + ".",
    )


def _gaussian_mala(mala: _Comparison, hmc: _Comparison) -> Row:
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Gaussian, MALA: the improvement is modest, and smaller in processor time",
        "modest",
        mala.ours(),
        {
            "the best alpha is below plain at equal steps": mala.helps(mala.best()),
            "the gain is smaller than that of HMC": mala.gain() < hmc.gain(),
            "the gain is smaller at equal gradients": mala.gain("gradients") < mala.gain(),
        },
        mala.why(),
    )


def _gaussian_hmc(hmc: _Comparison) -> Row:
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Gaussian, HMC: alpha = 2 or 5 yields the lowest error in steps and in processor time; "
        "alpha = 0.01 and 0.1 differ little from plain",
        "lowest at 2 or 5",
        hmc.ours(),
        {
            "alpha = 2 or 5 has the lowest error at equal steps": hmc.best() in (2.0, 5.0),
            "alpha = 2 or 5 has the lowest error at equal gradients": hmc.best("gradients")
            in (2.0, 5.0),
            "alpha = 2 or 5 is below plain": hmc.helps(2.0) or hmc.helps(5.0),
            "alpha = 0.01 and 0.1 are within a factor of 2 of plain": all(
                0.5 < hmc.errors(("fixed", a)).mean() / hmc.errors("plain").mean() < 2
                for a in (0.01, 0.1)
            ),
        },
        hmc.why(),
    )


def _logistic_mala(mala: _Comparison) -> Row:
    accepted = float(mala.curves["fixed", 5.0].acceptance.mean())
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Logistic, MALA: alpha = 1 or 2 is best in both views; alpha = 5 is trapped by rejections",
        "best at 1 or 2",
        mala.ours(),
        {
            "alpha = 1 or 2 has the lowest error at equal steps": mala.best() in (1.0, 2.0),
            "alpha = 1 or 2 has the lowest error at equal gradients": mala.best("gradients")
            in (1.0, 2.0),
            "alpha = 1 or 2 is below plain": mala.helps(1.0) or mala.helps(2.0),
            "alpha = 5 is above alpha = 2": mala.below(("fixed", 2.0), ("fixed", 5.0)),
            "the acceptance rate with alpha = 5 is below one half": accepted < 0.5,
        },
        mala.why() + " The acceptance rate is "
        f"{mala.curves['plain'].acceptance.mean():.2f} for plain MALA and {accepted:.2f} with "
        "alpha = 5.",
    )


def _logistic_hmc(hmc: _Comparison) -> Row:
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Logistic, HMC: alpha of 1 to 2 gives the lowest error; alpha = 5 does worse throughout",
        "best at 1 to 2",
        hmc.ours(),
        {
            "alpha = 1 or 2 has the lowest error at equal steps": hmc.best() in (1.0, 2.0),
            "alpha = 1 or 2 has the lowest error at equal gradients": hmc.best("gradients")
            in (1.0, 2.0),
            "alpha = 1 or 2 is below plain": hmc.helps(1.0) or hmc.helps(2.0),
            "alpha = 5 is above alpha = 1": hmc.below(("fixed", 1.0), ("fixed", 5.0)),
        },
        hmc.why(),
    )


def _condition(target: Target) -> Row:
    single = _precision(target)
    with jax.enable_x64(True):
        eigenvalues = _precision(target)
    condition, rounded = (float(e[-1] / e[0]) for e in (eigenvalues, single))
    return Row(
        "eq:corr_gaussian",
        "The covariance of the Gaussian has condition number about 19",
        "19",
        {"condition number": Estimate(condition, abs(condition - rounded))},
        {"it is within 10% of 19": abs(condition / 19 - 1) < 0.1},
        f"The largest eigenvalue of the precision matrix is {eigenvalues[-1]:.3g}, the smallest "
        f"{eigenvalues[0]:.2g}. The error is the rounding error of single precision.",
    )


def _precision(target: Target) -> Float[np.ndarray, " d"]:
    """The eigenvalues of the Gaussian's inverse covariance, in ascending order."""
    hessian = jax.hessian(target.logdensity_fn)(np.zeros(10))
    return np.linalg.eigvalsh(-np.asarray(hessian))


def _acceptance(each: dict[Block, _Comparison]) -> Row:
    found = {block.name: _numbers.mean(block.curves["plain"].acceptance) for block in each.values()}
    return Row(
        "app:simulation_setup",
        "The step sizes of MALA give acceptance rates between 0.5 and 0.8",
        "0.5 to 0.8",
        {f"acceptance rate, {name}": e for name, e in found.items()},
        {
            f"{name} is between 0.5 and 0.8": 0.5 <= e.value <= 0.8
            for name, e in found.items()
            if "MALA" in name
        },
        "A higher acceptance rate means that the printed step is smaller than the best one, which "
        "slows down the plain sampler and leaves more to gain.",
    )


def _self_tuned(block: _Comparison) -> Row:
    tuned, base = (block.curves[k] for k in ("self-tuned", "well-tuned"))
    equal = tuned.at_gradients(base.gradients[-1])
    printed = min(block.errors(("fixed", a)).mean() for a in ALPHAS)
    controls = block.curves["control variates"].last
    return Row(
        "sec:exp_continuous, self-tuned",
        f"{block.name}: score repellence reduces the error of a well-tuned sampler at equal "
        "gradients (our claim, alpha=auto)",
        NOT_IN_THE_PAPER,
        {
            "MSE, plain with the printed step": _numbers.mean(block.errors("plain")),
            "MSE, plain with a tuned step": _numbers.mean(base.last),
            "MSE, self-tuned, at equal gradients": _numbers.mean(equal),
            "MSE ratio, self-tuned over tuned plain": _numbers.ratio(equal, base.last),
            "MSE, control variates on the tuned plain draws": _numbers.mean(controls),
        },
        {
            "self-tuned is below the tuned plain sampler, by two standard errors": _numbers.below(
                equal, base.last, block.problem.truth.variance
            ),
            "self-tuned is below every printed alpha, whatever the number of steps": bool(
                equal.mean() < printed
            ),
        },
        "The MSE of control variates on the same plain draws is "
        f"{controls.mean() / equal.mean():.2g} times that of the self-tuned draws.",
    )
