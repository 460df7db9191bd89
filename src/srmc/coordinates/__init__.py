"""Coordinates in which a posterior is closer to a Gaussian, learned from draws and their scores.

`triangular` has the map, `fit` its Gauss-Newton steps, `order` finds which coordinates modulate
others, `learn` judges the map on draws held out, and `learned` is the result, for JAX. Every
constant is in `rule`. `whiten` has affine coordinates, in which draws and scores are near white.
"""

from srmc.coordinates.learn import learn_coordinates
from srmc.coordinates.learned import Coordinates

__all__ = ["Coordinates", "learn_coordinates"]
