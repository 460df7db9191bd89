"""Distributions to test a sampler on, most of them with exact or reference moments."""

from srmc.targets._base import Moments, Table, Target
from srmc.targets._continuous import (
    banana,
    breast_cancer,
    cox,
    eight_schools,
    ellipsoid,
    funnel,
    gaussian,
    logistic,
    logistic_posterior,
    mixture,
    student_t,
)
from srmc.targets._latent import ebm, factorial_hmm, rbm
from srmc.targets._pairwise import bernoulli, ising, lattice, potts

BUILT_IN = {
    build.__name__: build
    for build in (
        *(gaussian, ellipsoid, mixture, student_t, banana, funnel),
        *(logistic, breast_cancer, eight_schools, cox),
        *(bernoulli, ising, potts, rbm, factorial_hmm),
    )
}

__all__ = [
    "BUILT_IN",
    "Moments",
    "Table",
    "Target",
    "banana",
    "bernoulli",
    "breast_cancer",
    "cox",
    "ebm",
    "eight_schools",
    "ellipsoid",
    "factorial_hmm",
    "funnel",
    "gaussian",
    "ising",
    "lattice",
    "logistic",
    "logistic_posterior",
    "mixture",
    "potts",
    "rbm",
    "student_t",
]
