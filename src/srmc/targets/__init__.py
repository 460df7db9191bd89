"""Distributions to try a sampler on, each with exact or reference moments."""

from srmc.targets._base import Moments, Target
from srmc.targets._curved import banana, funnel
from srmc.targets._eight_schools import eight_schools
from srmc.targets._gaussian import gaussian, mixture
from srmc.targets._logistic import logistic, logistic_posterior

BUILT_IN = {f.__name__: f for f in (gaussian, mixture, logistic, banana, funnel, eight_schools)}

__all__ = [
    "BUILT_IN",
    "Moments",
    "Target",
    "banana",
    "eight_schools",
    "funnel",
    "gaussian",
    "logistic",
    "logistic_posterior",
    "mixture",
]
