"""The ledger of figure 2: what is best, at equal steps and at equal gradients, and the setup."""

import jax
import numpy as np

from srmc.paper import _numbers
from srmc.paper._families import ALPHAS
from srmc.paper._ledger import NOT_IN_THE_PAPER, Estimate, Row
from srmc.paper._problems import diverged, problem

VIEWS = ("steps", "gradients")


def rows(found, size: str) -> list[Row]:
    """All rows; those of self-tuned samplers where these were run."""
    each = {block: _Block(block, curves, size) for block, curves in found.items()}
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


class _Block:
    """Curves of one target and sampler, at equal steps or at equal gradients."""

    def __init__(self, block: tuple[str, str], curves: dict, size: str):
        self.name = f"{block[0]}, {block[1].upper()}"
        self.curves = curves
        self.problem = problem(block[0], block[1], size)

    def errors(self, key, view="steps"):
        """Errors over replicates, at the end of the plain sampler's steps or gradients."""
        curve = self.curves[key]
        if view == "steps":
            return curve.last
        return curve.at_gradients(self.curves["plain"].gradients[-1])

    def best(self, view="steps"):
        """The printed alpha, or 0, with the lowest error."""
        sizes = {0.0: self._mean("plain", view)}
        sizes |= {a: self._mean(("fixed", a), view) for a in ALPHAS}
        return min(sizes, key=lambda a: sizes[a])

    def _mean(self, key, view):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.nan_to_num(self.errors(key, view).mean(), nan=np.inf, posinf=np.inf))

    def below(self, first, second, view="steps"):
        """Whether one is below another by two errors."""
        limit = self.problem.truth.variance
        return _numbers.below(self.errors(first, view), self.errors(second, view), limit)

    def helps(self, alpha, view="steps"):
        """Whether an alpha is below the plain sampler by two errors."""
        return self.below(("fixed", alpha) if alpha else "plain", "plain", view)

    def lost(self, alpha):
        """The share of runs that diverged."""
        return float(np.mean(diverged(self.curves["fixed", alpha].last, self.problem)))

    def ours(self):
        """The errors of all, and of control variates."""
        out = {"plain": _numbers.mean(self.errors("plain"))}
        out |= {f"alpha = {a:g}": _numbers.mean(self.errors(("fixed", a))) for a in ALPHAS}
        name = "plain with control variates"
        out[name] = _numbers.mean(self.curves["plain, control variates"].last)
        return {f"MSE, {k}": v for k, v in out.items()}

    def gain(self, view="steps"):
        """How many times the best printed alpha lowers the error."""
        best = self.best(view)
        key = ("fixed", best) if best else "plain"
        return self._mean("plain", view) / self._mean(key, view)

    def why(self):
        """What was seen of divergence, acceptance and cost."""
        lost = [f"{self.lost(a):.0%} at alpha = {a:g}" for a in ALPHAS if self.lost(a) > 0]
        cost = self.curves["fixed", 1.0].gradients[-1] / self.curves["plain"].gradients[-1]
        return (
            f"The best alpha lowers the error {self.gain():.2g} times at equal steps and "
            f"{self.gain('gradients'):.2g} times at equal gradients (a step costs {cost:.2g} times "
            "as many). Runs that diverged: " + (", ".join(lost) or "none") + "."
        )


def _overall(each):
    settings = [(block, a) for block in each.values() for a in ALPHAS]
    share = {
        view: _numbers.share(np.array([block.helps(a, view) for block, a in settings]))
        for view in VIEWS
    }
    worse = [(block, a) for block, a in settings if block.below("plain", ("fixed", a))]
    return Row(
        "sec:exp_continuous",
        "overall, SRMC improves upon the baseline across most settings, after its cost too",
        "most settings",
        {f"share of settings below plain at equal {view}": e for view, e in share.items()},
        {f"more than half at equal {view}": e.value > 0.5 for view, e in share.items()},
        f"Of {len(settings)} settings {len(worse)} are worse than plain by two errors: "
        + (", ".join(f"{block.name} {a:g}" for block, a in worse) or "none")
        + ".",
    )


def _gaussian_mala(mala, hmc):
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Gaussian, MALA: modest improvement, narrower in processor time",
        "modest",
        mala.ours(),
        {
            "the best alpha is below plain at equal steps": mala.helps(mala.best()),
            "the gain is smaller than that of HMC": mala.gain() < hmc.gain(),
            "the gain is smaller at equal gradients": mala.gain("gradients") < mala.gain(),
        },
        mala.why(),
    )


def _gaussian_hmc(hmc):
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "Gaussian, HMC: alpha = 2 or 5 yields the lowest error in steps and in processor time; "
        "0.01 and 0.1 differ little from plain",
        "lowest at 2 or 5",
        hmc.ours(),
        {
            "the lowest error is that of alpha = 2 or 5, at equal steps": hmc.best() in (2.0, 5.0),
            "and at equal gradients": hmc.best("gradients") in (2.0, 5.0),
            "alpha = 2 or 5 is below plain": hmc.helps(2.0) or hmc.helps(5.0),
            "0.01 and 0.1 are within a factor of 2 of plain": all(
                0.5 < hmc.errors(("fixed", a)).mean() / hmc.errors("plain").mean() < 2
                for a in (0.01, 0.1)
            ),
        },
        hmc.why(),
    )


def _logistic_mala(mala):
    accepted = mala.curves["fixed", 5.0].acceptance.mean()
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "logistic, MALA: alpha = 1 or 2 is best in both views; alpha = 5 is trapped by rejections",
        "best at 1 or 2",
        mala.ours(),
        {
            "the lowest error is that of alpha = 1 or 2, at equal steps": mala.best() in (1.0, 2.0),
            "and at equal gradients": mala.best("gradients") in (1.0, 2.0),
            "alpha = 1 or 2 is below plain": mala.helps(1.0) or mala.helps(2.0),
            "alpha = 5 is above alpha = 2": mala.below(("fixed", 2.0), ("fixed", 5.0)),
            "the acceptance of alpha = 5 is below one half": accepted < 0.5,
        },
        mala.why() + f" Acceptance is {mala.curves['plain'].acceptance.mean():.2f} for plain MALA, "
        f"{accepted:.2f} with alpha = 5.",
    )


def _logistic_hmc(hmc):
    return Row(
        "sec:exp_continuous, fig:two_col_subfigs",
        "logistic, HMC: alpha of 1 to 2 gives the lowest error, alpha = 5 does worse throughout",
        "best at 1 to 2",
        hmc.ours(),
        {
            "the lowest error is that of alpha = 1 or 2, at equal steps": hmc.best() in (1.0, 2.0),
            "and at equal gradients": hmc.best("gradients") in (1.0, 2.0),
            "alpha = 1 or 2 is below plain": hmc.helps(1.0) or hmc.helps(2.0),
            "alpha = 5 is above alpha = 1": hmc.below(("fixed", 1.0), ("fixed", 5.0)),
        },
        hmc.why(),
    )


def _condition(target):
    single = _precision(target)
    with jax.enable_x64(True):
        eigenvalues = _precision(target)
    condition, rounded = (float(e[-1] / e[0]) for e in (eigenvalues, single))
    return Row(
        "eq:corr_gaussian",
        "the covariance of the Gaussian has condition number about 19",
        "19",
        {"condition number": Estimate(condition, abs(condition - rounded))},
        {"it is within 10% of 19": abs(condition / 19 - 1) < 0.1},
        f"{eigenvalues[-1]:.3g} is the largest eigenvalue of the precision; the smallest is "
        f"{eigenvalues[0]:.2g}. The error is that of single precision.",
    )


def _precision(target):
    """Eigenvalues of the Gaussian's inverse covariance, ascending."""
    hessian = jax.hessian(target.logdensity_fn)(np.zeros(10))
    return np.linalg.eigvalsh(-np.asarray(hessian))


def _acceptance(each):
    found = {block.name: _numbers.mean(block.curves["plain"].acceptance) for block in each.values()}
    return Row(
        "app:simulation_setup",
        "the step sizes of MALA give acceptance rates between 0.5 and 0.8",
        "0.5 to 0.8",
        {f"acceptance, {k}": v for k, v in found.items()},
        {
            f"{k} is between 0.5 and 0.8": 0.5 <= v.value <= 0.8
            for k, v in found.items()
            if "MALA" in k
        },
        "Where the printed step accepts more, it is smaller than the best, which makes the plain "
        "sampler slow and leaves more to gain.",
    )


def _self_tuned(block):
    tuned, base = (block.curves[k] for k in ("self-tuned", "well-tuned"))
    equal = tuned.at_gradients(base.gradients[-1])
    ratio = _numbers.ratio(equal, base.last)
    printed = min(block.errors(("fixed", a)).mean() for a in ALPHAS)
    controls = block.curves["control variates"].last
    return Row(
        "sec:exp_continuous, self-tuned",
        f"{block.name}: score repellence lowers the error of a well-tuned sampler at equal "
        "gradients (ours, alpha=auto)",
        NOT_IN_THE_PAPER,
        {
            "MSE, plain with the printed step": _numbers.mean(block.errors("plain")),
            "MSE, plain with a tuned step": _numbers.mean(base.last),
            "MSE, self-tuned, at equal gradients": _numbers.mean(equal),
            "the last two, ratio": ratio,
            "MSE, control variates on the tuned plain draws": _numbers.mean(controls),
        },
        {
            "self-tuned is below the tuned plain sampler, by two errors": _numbers.below(
                equal, base.last, block.problem.truth.variance
            ),
            "self-tuned is below every printed alpha, at more steps or fewer": bool(
                equal.mean() < printed
            ),
        },
        f"Control variates on the same plain draws have {controls.mean() / equal.mean():.2g} times "
        "the error of the self-tuned draws.",
    )
