"""Distributions to try a sampler on, each with exact or reference moments."""

from srmc.targets._base import Moments, Target
from srmc.targets._cox import cox
from srmc.targets._curved import banana, funnel
from srmc.targets._eight_schools import eight_schools
from srmc.targets._gaussian import ellipsoid, gaussian, mixture, student_t
from srmc.targets._logistic import breast_cancer, logistic, logistic_posterior

BUILT_IN = {
    build.__name__: build
    for build in (
        *(gaussian, ellipsoid, mixture, student_t, banana, funnel),
        *(logistic, breast_cancer, eight_schools, cox),
    )
}

__all__ = [
    "BUILT_IN",
    "Moments",
    "Target",
    "banana",
    "breast_cancer",
    "cox",
    "eight_schools",
    "ellipsoid",
    "funnel",
    "gaussian",
    "logistic",
    "logistic_posterior",
    "mixture",
    "student_t",
]
