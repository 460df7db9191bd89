"""Maps close to the identity, and the Stein features that they act against."""

import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import hermite_e

from srmc.rebalance.coordinates import FAR, Coordinates, Rows
from srmc.rebalance.products import product_features, product_mover, product_sums, triples
from srmc.types import Float


class Form(NamedTuple):
    """Which fields a map has: "full", "diagonal" or "shift", marginal ones up to `order`, products.

    >>> str(Form.parse("full, order 5, products"))
    'full, order 5, products'
    """

    linear: str
    order: int = 1
    products: bool = False

    def __str__(self) -> str:
        order = f", order {self.order}" if self.order >= 2 else ""
        return self.linear + order + (", products" if self.products else "")

    @staticmethod
    def parse(text: str) -> "Form":
        """The form whose string this is."""
        linear, *more = text.split(", ")
        orders = [int(word.removeprefix("order ")) for word in more if word.startswith("order ")]
        return Form(linear, max(orders, default=1), "products" in more)

    def size(self, dim: int) -> int:
        """The number of fields in so many dimensions."""
        linear = {"full": dim * (dim + 1) // 2, "diagonal": dim, "shift": 0}[self.linear]
        products = dim * dim * (dim + 1) // 2 - dim if self.products else 0
        return dim + linear + (self.order - 1) * dim + products


class Weights(NamedTuple):
    """The weights of a map's fields, or the means of their features: in one structure.

    shift
        Of constant fields in y.
    linear
        Of linear fields in y: a symmetric matrix, a vector of scalings, or nothing.
    marginal
        Of h_k(z_i) R[:, i] / sqrt((k + 1)!), for k = 2 up to the order, (k, i).
    product
        Of (z_i z_j - R_ij) R[:, k] / sqrt(2), one for each of `triples`, or nothing.
    """

    shift: Float[np.ndarray, " d"]
    linear: Float[np.ndarray, "..."]
    marginal: Float[np.ndarray, "k d"]
    product: Float[np.ndarray, " t"]

    def flat(self) -> np.ndarray:
        """All weights as a vector; of a symmetric matrix its upper half, in an isometric way."""
        linear = self.linear
        if linear.ndim == 2:
            rows, columns = np.triu_indices(len(linear))
            linear = linear[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
        return np.concatenate([self.shift, linear, self.marginal.ravel(), self.product])

    def like(self, flat: np.ndarray) -> "Weights":
        """A vector in this structure."""
        dim = len(self.shift)
        product = len(flat) - self.product.size
        ends = [dim, product - self.marginal.size, product]
        shift, linear, marginal, last = np.split(flat, ends)
        if self.linear.ndim == 2:
            rows, columns = np.triu_indices(dim)
            matrix = np.zeros((dim, dim))
            matrix[rows, columns] = linear / np.where(rows == columns, 1.0, np.sqrt(2.0))
            linear = matrix + np.triu(matrix, 1).T
        return Weights(shift, linear, marginal.reshape(self.marginal.shape), last)


def no_move(form: Form, dim: int) -> Weights:
    """The weights of the identity."""
    shapes = {"full": (dim, dim), "diagonal": (dim,), "shift": (0,)}
    marginal = np.zeros((max(0, form.order - 1), dim))
    product = np.zeros(len(triples(dim)) if form.products else 0)
    return Weights(np.zeros(dim), np.zeros(shapes[form.linear]), marginal, product)


def mover(at: Coordinates, weights: Weights) -> Callable[[Rows], Rows]:
    """The map of draws z."""
    offset, linear = at.push(weights.shift), weights.linear
    if linear.ndim == 2:
        linear = at.push(linear if at.inverse is None else at.inverse @ linear)
    elif linear.size and at.inverse is not None:
        linear = at.push(at.inverse * linear)
    order = len(weights.marginal) + 1
    powers = _monomials(order).T @ weights.marginal if weights.marginal.size else None
    by_products = product_mover(at, weights.product) if weights.product.size else None

    def move(z: Rows) -> Rows:
        out: Rows = z + offset
        if linear.ndim == 2:
            out += z @ linear
        elif linear.size:
            out += z * linear
        if powers is not None:
            out += at.regress(polynomial(powers, np.clip(z, -FAR, FAR)))
        if by_products is not None:
            out += by_products(z)
        return out

    return move


def mean_features(at: Coordinates, like: Weights, parts: Iterable[tuple[Rows, Rows]]) -> Weights:
    """The means of all features over draws z with scores s, in units of z, part by part.

    Rows need not be whitened: the sum of s_y y^T is that of s z^T between two matrices.
    """
    dim, order = len(like.shift), len(like.marginal) + 1
    is_matrix = like.linear.ndim == 2 or at.root is not None
    count, shift, product = 0, np.zeros(dim), np.zeros_like(like.product)
    outer = np.zeros((dim, dim) if is_matrix else dim)
    marginal = np.zeros_like(like.marginal)
    for z, s in parts:
        count += len(z)
        shift += np.sum(s, axis=0)
        if like.linear.size:
            outer += s.T @ z if is_matrix else np.sum(s * z, axis=0)
        if like.marginal.size:
            marginal += _marginal_sums(z, at.regress(s), order)
        if like.product.size:
            product += product_sums(at, z, at.regress(s))
    linear = like.linear
    if linear.size:
        if linear.ndim == 2:
            whole = at.whiten(at.push(outer.T).T)
            linear = count * np.eye(dim) + (whole + whole.T) / 2
        elif at.root is not None:
            linear = count + np.sum(at.root * at.whiten(outer).T, axis=1)
        else:
            linear = count + outer
    sums = Weights(at.push(shift), linear, marginal, product)
    return like.like(sums.flat() / max(count, 1))


def _marginal_sums(z: Rows, own: Rows, order: int) -> Float[np.ndarray, "k d"]:
    """The sums of h_k'(z) + h_k(z) own, from sums of z^j inside of ±3 and of z^j own."""
    cut = np.clip(z, -FAR, FAR)
    inside, own = (np.abs(z) < FAR).astype(float), own.copy()
    ones = np.ones(len(z))  # a product with which is faster than a sum over rows
    slopes, values = [ones @ inside], [ones @ own]
    for _ in range(order):
        inside *= cut
        own *= cut
        slopes.append(ones @ inside)
        values.append(ones @ own)
    of_power = _monomials(order)
    derivative = of_power[:, 1:] * np.arange(1, order + 1)
    found: np.ndarray = of_power @ np.stack(values) + derivative @ np.stack(slopes[:-1])
    return found


def polynomial(powers: Float[np.ndarray, "j d"], x: Rows) -> Rows:
    """The sum of powers[j] x^j, by Horner's rule."""
    out = np.broadcast_to(powers[-1], x.shape).copy()
    for coefficient in powers[-2::-1]:
        out *= x
        out += coefficient
    return out


@functools.cache
def _monomials(order: int) -> Float[np.ndarray, "k j"]:
    """The coefficients of x^j in h_k(x) / sqrt((k + 1)!), for k = 2 up to the order."""
    rows = [hermite_e.herme2poly([0.0] * k + [1.0]) for k in range(2, order + 1)]
    scales = [math.factorial(k + 1) ** -0.5 for k in range(2, order + 1)]
    padded = [np.pad(row, (0, order + 1 - len(row))) for row in rows]
    found: np.ndarray = np.stack(padded) * np.array(scales)[:, None]
    return found


def feature_rows(at: Coordinates, like: Weights, z: Rows, s: Rows) -> Rows:
    """All features of each draw, as `Weights.flat` lays them out."""
    y, s_y = at.whiten(z), at.push(s)
    parts = [s_y]
    if like.linear.ndim == 2:
        i, j = np.triu_indices(z.shape[1])
        scale = np.where(i == j, 0.5, np.sqrt(0.5))
        parts.append((i == j) + scale * (s_y[:, i] * y[:, j] + s_y[:, j] * y[:, i]))
    elif like.linear.size:
        parts.append(1 + s_y * y)
    if like.marginal.size:
        values, slopes = hermite(z, len(like.marginal) + 1)
        parts += list(slopes + values * at.regress(s)[None])
    if like.product.size:
        parts.append(product_features(at, z, s))
    return np.concatenate(parts, axis=1)


def hermite(z: Rows, order: int) -> tuple[np.ndarray, np.ndarray]:
    """h_k(z) / sqrt((k + 1)!) and its derivative for k = 2 up to the order, z cut at ±3."""
    cut = np.clip(z, -FAR, FAR)
    inside = np.abs(z) < FAR
    polynomials = [np.ones_like(cut), cut]
    for k in range(1, order):
        polynomials.append(cut * polynomials[k] - k * polynomials[k - 1])
    values, slopes = [], []
    factorial = 2.0
    for k in range(2, order + 1):
        factorial *= k + 1
        values.append(polynomials[k] / np.sqrt(factorial))
        slopes.append(inside * k * polynomials[k - 1] / np.sqrt(factorial))
    return np.stack(values), np.stack(slopes)
