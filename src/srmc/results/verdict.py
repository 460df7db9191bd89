"""The opening of the page of a run: what was run, whether to trust it, and in which coordinates."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from srmc.results.charts import Markup, scatter, tag
from srmc.results.pair import pair_of
from srmc.results.result import Result
from srmc.results.shown import kind_of
from srmc.results.trouble import is_learned

_DRAWS = {
    "rebalanced": "The draws were then moved slightly, so that functions whose means are known, "
    "such as the gradient of the log density, average to these means.",
    "resampled": "The draws were then resampled, so that functions whose means are known average "
    "to these means.",
    "repelled": "The chains were pushed away from regions that they had visited too often.",
    "controlled": "Means and variances are those of the plain draws with control variates: what "
    "the gradients of the log density explain of their noise is removed.",
    "plain": "These are the draws of the plain kernel.",
}


def in_words(result: Result) -> str:
    """What was run, in a few sentences."""
    about, settings = result.about, result.about.get("settings", {})
    text = f"{count(len(result.stats['alpha']), 'chain')} of {count(about['num_draws'], 'draw')}"
    if "num_warmup" in settings:
        text += f" by {settings['kernel']}, after {settings['num_warmup']:,} warm-up steps"
    if result.kept.draws is None:
        text += f"; only the {settings['keep']} were kept"
    return f"{text}. {_DRAWS[kind_of(result)]}"


def verdict(result: Result, summary: Any) -> Markup:
    """Whether to trust the run, or what to do first."""
    texts = result.warnings
    if result.interrupted:
        texts = ["the run was stopped before its end; the page is about what was drawn", *texts]
    if texts:
        items = (tag("li", text[:1].upper() + text[1:] + ".") for text in texts)
        heading = tag("h2", f"Before you trust it: {count(len(texts), 'warning')}")
        return tag("section", heading, tag("ul", *items), class_="warnings", role="note")
    reasons = ["there are no warnings"]
    if "r_hat_base" in summary:
        r_hat, ess = np.nanmax(summary["r_hat_base"]), np.nanmin(summary["ess_base"])
        reasons += [f"the chains agree (R-hat is at most {r_hat:.3f})"] * bool(np.isfinite(r_hat))
        reasons += [f"they amount to at least {ess:,.0f} independent draws"] * bool(
            np.isfinite(ess)
        )
    largest = float(np.nanmax(summary["error"] / summary["sd"])) if len(summary) else np.nan
    if np.isfinite(largest):
        reasons.append(f"standard errors of means are at most {largest:.2g} standard deviations")
    text = ", ".join(reasons[:-1]) + (", and " if len(reasons) > 1 else "") + reasons[-1]
    said = tag("p", f"{text[:1].upper()}{text[1:]}.")
    return tag("section", tag("h2", "Trust it"), said, class_="fine")


def coordinates(result: Result) -> Iterator[Markup]:
    """What was learned about the coordinates, and what that means."""
    if not is_learned(result):
        return
    found = result.about["coordinates"]
    before, after = found["divergence"]
    yield tag("h2", "Learned coordinates")
    yield tag(
        "p",
        "In the parameters of the model this posterior is hard to sample, since some parameters "
        "set the scale or the location of others. Warm-up found coordinates in which they do not. "
        "The chains ran in these, and the draws were mapped back; the posterior is the same.",
    )
    yield tag("ul", *(tag("li", f"{text[:1].upper()}{text[1:]}.") for text in found["found"]))
    yield tag(
        "p",
        f"The divergence from a Gaussian fell from {before:.2g} to {after:.2g}. It is 0 for a "
        "Gaussian, and above about 1 for posteriors that are hard to sample.",
    )
    if pair := pair_of(result):
        first, second = pair.names
        words = f"{second} over {first}"
        sides = (
            (words, "in the model's parameters", pair.before),
            (f"{words}, as the chains ran", "in learned coordinates", pair.after),
        )
        panels = (
            tag("div", tag("h3", head), scatter(points, f"{words} {where}"), class_="panel")
            for head, where, points in sides
        )
        yield tag("div", *panels, class_="grid")


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(2, "chain")
    '2 chains'
    """
    return f"{number:,} {noun}" + ("s" if number != 1 else "")
