"""Fields (z_i z_j - R_ij) R[:, k] / sqrt(2), along which draws move far from a Gaussian."""

from collections.abc import Callable

import numpy as np

from srmc.rebalance.coordinates import FAR, Coordinates, Rows
from srmc.types import Float, Int


def triples(dim: int) -> Int[np.ndarray, "t 3"]:
    """i <= j and k of the fields z_i z_j along k, without those that are marginal."""
    rows, columns = np.triu_indices(dim)
    pairs = np.repeat(np.stack([rows, columns], axis=1), dim, axis=0)
    every = np.column_stack([pairs, np.tile(np.arange(dim), len(rows))])
    return every[np.any(every != every[:, :1], axis=1)]


def product_mover(at: Coordinates, weights: Float[np.ndarray, " t"]) -> Callable[[Rows], Rows]:
    """The move of draws z under these weights, one for each of `triples`."""
    dim = len(at.scale)
    by_pair = np.zeros((dim * (dim + 1) // 2, dim))
    by_pair[_pair_and_direction(dim)] = weights / np.sqrt(2)
    constant = _upper(_correlation(at)) @ by_pair
    return lambda z: at.regress(_pairs(np.clip(z, -FAR, FAR)) @ by_pair - constant)


def product_features(at: Coordinates, z: Rows, s: Rows) -> Float[np.ndarray, "n t"]:
    """The features of products, one for each of `triples`."""
    values, slopes = products(at, z)
    features: np.ndarray = slopes + values * at.regress(s)[:, triples(z.shape[1])[:, 2]]
    return features


def product_sums(at: Coordinates, z: Rows, own: Rows) -> Float[np.ndarray, " t"]:
    """The sums of the features of products over draws, without a column for each of them."""
    i, j, k = triples(z.shape[1]).T
    correlation, cut = _correlation(at), np.clip(z, -FAR, FAR)
    values = _pairs(cut).T @ own - np.outer(_upper(correlation), np.sum(own, axis=0))
    slopes = (np.abs(z) < FAR).astype(float).T @ cut
    turned = slopes[i, j] * correlation[i, k] + slopes[j, i] * correlation[j, k]
    found: np.ndarray = (values[_pair_and_direction(z.shape[1])] + turned) / np.sqrt(2)
    return found


def _correlation(at: Coordinates) -> Float[np.ndarray, "d d"]:
    return np.eye(len(at.scale)) if at.correlation is None else at.correlation


def _upper(matrix: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " p"]:
    upper: np.ndarray = matrix[np.triu_indices(len(matrix))]
    return upper


def _pairs(z: Rows) -> Float[np.ndarray, "n p"]:
    """z_i z_j for i <= j."""
    i, j = np.triu_indices(z.shape[1])
    found: np.ndarray = z[:, i] * z[:, j]
    return found


def _pair_and_direction(dim: int) -> tuple[Int[np.ndarray, " t"], Int[np.ndarray, " t"]]:
    """The columns of `_pairs`, and the coordinates along which they act, of all triples."""
    place = np.zeros((dim, dim), int)
    place[np.triu_indices(dim)] = np.arange(dim * (dim + 1) // 2)
    i, j, k = triples(dim).T
    return place[i, j], k


def products(at: Coordinates, z: Rows) -> tuple[Float[np.ndarray, "n t"], Float[np.ndarray, "n t"]]:
    """(z_i z_j - R_ij) / sqrt(2) and its derivative along R[:, k] for all triples, z cut at ±3."""
    i, j, k = triples(z.shape[1]).T
    correlation = _correlation(at)
    cut, inside = np.clip(z, -FAR, FAR), np.abs(z) < FAR
    values = (cut[:, i] * cut[:, j] - correlation[i, j]) / np.sqrt(2)
    slopes = inside[:, i] * cut[:, j] * correlation[i, k]
    slopes = (slopes + inside[:, j] * cut[:, i] * correlation[j, k]) / np.sqrt(2)
    return values, slopes
