"""The ledger rows of figure 2: which alpha is best at equal steps, gradients or processor time."""

import numpy as np

from srmc_studies.paper import _numbers
from srmc_studies.paper._comparison import Comparison
from srmc_studies.paper._derivatives import derivatives
from srmc_studies.paper._families import ALPHAS, Curves
from srmc_studies.paper._figure2_other_rows import other_rows
from srmc_studies.paper._ledger import Estimate, Row
from srmc_studies.paper._problems import Block

MODEL = 3.0  # cost of a repelled step over that of a plain one, in the paper's cost model
PANELS = "sec:exp_continuous, fig:two_col_subfigs"


def rows(found: dict[Block, Curves], size: str) -> list[Row]:
    """The paper's claims under each derivative rule, and what does not depend on that rule."""
    out: list[Row] = []
    for derivative in derivatives(size):
        each = {
            block: Comparison(block, curves, size, derivative) for block, curves in found.items()
        }
        out += [_overall(each), _five_times(each), _overhead(each), *panel_rows(each)]
    return out + other_rows(found, size)


def panel_rows(each: dict[Block, Comparison]) -> list[Row]:
    """The paper's claims about the panels of the targets that are given, under one reading."""
    out: list[Row] = []
    if ("gaussian", "hmc") in each:
        mala, hmc = each["gaussian", "mala"], each["gaussian", "hmc"]
        out += [_gaussian_mala(mala, hmc), _gaussian_hmc(hmc)]
    if ("logistic", "hmc") in each:
        out += [_logistic_mala(each["logistic", "mala"]), _logistic_hmc(each["logistic", "hmc"])]
    return out


def _overall(each: dict[Block, Comparison]) -> Row:
    first = each["gaussian", "mala"]
    settings = [(block, a) for block in each.values() for a in ALPHAS]
    share = {
        view: _numbers.share(np.array([block.helps(a, view) for block, a in settings]))
        for view in first.views
    }
    worse = [(block, a) for block, a in settings if block.below(0.0, a)]
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
        first.reading,
    )


def _five_times(each: dict[Block, Comparison]) -> Row:
    first = each["gaussian", "mala"]
    best = {view: max(each.values(), key=lambda c: c.gain(view)) for view in first.views}
    ratio = {view: block.ratio(view) for view, block in best.items()}
    return Row(
        "sec:exp_continuous, contributions",
        "SRMC has up to 5 times lower MSE for estimates of means in continuous settings",
        "5 times",
        {f"smallest MSE over that of plain, at equal {view}": e for view, e in ratio.items()},
        {
            f"some printed alpha has a fifth of the MSE of plain, or less, at equal {view}": bool(
                e.value <= 0.2
            )
            for view, e in ratio.items()
        },
        "The largest factors are "
        + ", ".join(
            f"{block.gain(view):.2g} at equal {view} ({block.name}, alpha = {block.best(view):g})"
            for view, block in best.items()
        )
        + "; each is the best of 20 settings.",
        first.reading,
    )


def _overhead(each: dict[Block, Comparison]) -> Row:
    first = each["gaussian", "mala"]
    costs = {
        (view, block.name): block.overhead(view)
        for view in first.views[1:]
        for block in each.values()
    }
    most = {view: max(x for (v, _), x in costs.items() if v == view) for view in first.views[1:]}
    return Row(
        "app:cost_based_clt_srmc, abstract",
        "The overhead per iteration is modest: three gradients in place of one",
        "modest; 3 to 1 in the cost model",
        {
            f"{view} of a repelled step over those of a plain one, {name}": Estimate(x, 0.0)
            for (view, name), x in costs.items()
        },
        {
            f"a repelled step takes at most {MODEL:g} times the {view} of a plain one": (
                x < 1.001 * MODEL
            )
            for view, x in most.items()
        },
        "A product with the Hessian counts as two gradients. Of MALA the scores at both ends are "
        "known, and a difference takes one more gradient at each of them.",
        first.reading,
    )


def _gaussian_mala(mala: Comparison, hmc: Comparison) -> Row:
    return Row(
        PANELS,
        "Gaussian, MALA: the improvement is modest, and smaller in processor time",
        "modest",
        mala.ours(),
        {
            "the best alpha is below plain at equal steps": mala.helps(mala.best()),
            "the gain is smaller than that of HMC": mala.gain() < hmc.gain(),
        }
        | {
            f"the gain is smaller at equal {view}": mala.gain(view) < mala.gain()
            for view in mala.views[1:]
        },
        mala.why(),
        mala.reading,
    )


def _lowest(block: Comparison, alphas: tuple[float, float]) -> dict[str, bool]:
    """Whether one of two alphas has the lowest error, in each view."""
    names = " or ".join(f"{a:g}" for a in alphas)
    return {
        f"alpha = {names} has the lowest error at equal {view}": block.best(view) in alphas
        for view in block.views
    } | {f"alpha = {names} is below plain": any(block.helps(a) for a in alphas)}


def _gaussian_hmc(hmc: Comparison) -> Row:
    plain = hmc.errors(0.0).mean()
    return Row(
        PANELS,
        "Gaussian, HMC: alpha = 2 or 5 yields the lowest error in steps and in processor time; "
        "alpha = 0.01 and 0.1 differ little from plain",
        "lowest at 2 or 5",
        hmc.ours(),
        _lowest(hmc, (2.0, 5.0))
        | {
            "alpha = 0.01 and 0.1 are within a factor of 2 of plain": all(
                bool(0.5 < hmc.errors(a).mean() / plain < 2) for a in (0.01, 0.1)
            ),
        },
        hmc.why(),
        hmc.reading,
    )


def _logistic_mala(mala: Comparison) -> Row:
    accepted, plain = (float(mala.curves[mala.key(a)].acceptance.mean()) for a in (5.0, 0.0))
    return Row(
        PANELS,
        "Logistic, MALA: alpha = 1 or 2 is best in both views; alpha = 5 is trapped by rejections",
        "best at 1 or 2",
        mala.ours(),
        _lowest(mala, (1.0, 2.0))
        | {
            "alpha = 5 is above alpha = 2": mala.below(2.0, 5.0),
            "the acceptance rate with alpha = 5 is below one half": accepted < 0.5,
        },
        mala.why() + f" The acceptance rate is {plain:.2f} for plain MALA and {accepted:.2f} with "
        "alpha = 5.",
        mala.reading,
    )


def _logistic_hmc(hmc: Comparison) -> Row:
    return Row(
        PANELS,
        "Logistic, HMC: alpha of 1 to 2 gives the lowest error; alpha = 5 does worse throughout",
        "best at 1 to 2",
        hmc.ours(),
        _lowest(hmc, (1.0, 2.0)) | {"alpha = 5 is above alpha = 1": hmc.below(1.0, 5.0)},
        hmc.why(),
        hmc.reading,
    )
