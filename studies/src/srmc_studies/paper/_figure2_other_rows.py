"""The ledger rows of figure 2 that do not depend on the derivative rule."""

import jax
import numpy as np

from srmc.targets import Target
from srmc.types import Float
from srmc_studies.paper import _numbers
from srmc_studies.paper._families import Curves
from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Estimate, Row
from srmc_studies.paper._problems import Block, problem, title


def other_rows(found: dict[Block, Curves], size: str) -> list[Row]:
    """The set-up that the paper states, and the self-tuned samplers where they were run."""
    return [
        _condition(problem(("gaussian", "mala"), size).target),
        _acceptance(found),
        *(_self_tuned(b, curves, size) for b, curves in found.items() if "self-tuned" in curves),
    ]


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


def _acceptance(each: dict[Block, Curves]) -> Row:
    found = {title(b): _numbers.mean(curves["plain"].acceptance) for b, curves in each.items()}
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


def _self_tuned(block: Block, curves: Curves, size: str) -> Row:
    tuned, base, plain = (curves[k] for k in ("self-tuned", "well-tuned", "plain"))
    equal = tuned.at("gradients", base.gradients[-1])
    printed = min(
        _numbers.mean_or_inf(c.last) for key, c in curves.items() if isinstance(key, tuple)
    )
    controls = curves["control variates"].last
    return Row(
        "sec:exp_continuous, self-tuned",
        f"{title(block)}: score repellence reduces the error of a well-tuned sampler at equal "
        "gradients (our claim, draws that are repelled as they are made)",
        NOT_IN_THE_PAPER,
        {
            "MSE, plain with the printed step": _numbers.mean(plain.last),
            "MSE, plain with a tuned step": _numbers.mean(base.last),
            "MSE, self-tuned, at equal gradients": _numbers.mean(equal),
            "MSE ratio, self-tuned over tuned plain": _numbers.ratio(equal, base.last),
            "MSE, control variates on the tuned plain draws": _numbers.mean(controls),
        },
        {
            "self-tuned is below the tuned plain sampler, by two standard errors": _numbers.below(
                equal, base.last, problem(block, size).truth.variance
            ),
            "self-tuned is below every printed alpha under every derivative rule, whatever the "
            "number of steps": bool(equal.mean() < printed),
        },
        "The MSE of control variates on the same plain draws is "
        f"{controls.mean() / equal.mean():.2g} times that of the self-tuned draws.",
    )
