"""From draws and scores to learned coordinates."""

import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers
from srmc.coordinates import rule
from srmc.coordinates.learned import Coordinates, identity
from srmc.coordinates.order import Found, Rows, search, whitened
from srmc.coordinates.triangular import mapped
from srmc.types import ArrayLike, Float


def learn_coordinates(
    draws: Float[ArrayLike, "*chain draw d"],
    scores: Float[ArrayLike, "*chain draw d"],
    *,
    names: tuple[str, ...] = (),
    always: bool = False,
) -> Coordinates:
    """Coordinates in which a posterior is closer to a Gaussian, from draws and their scores.

    A triangular map, in which the locations and the log scales of coordinates depend on few others,
    is fitted to the scores of two thirds of the draws. It is taken if it clearly lowers the Fisher
    divergence on the last third; else the coordinates stay what they are.

    Parameters
    ----------
    draws
        Draws of unconstrained parameters, (chain, draw, d) or (draw, d).
    scores
        The gradients of the log density at the draws.
    names
        The names of the coordinates.
    always
        Whether to take the map that lowers the divergence, however little.

    Examples
    --------
    >>> import numpy as np, srmc
    >>> rng = np.random.default_rng(0)
    >>> neck = 3 * rng.standard_normal((400, 1))
    >>> rest = np.exp(neck / 2) * rng.standard_normal((400, 4))
    >>> draws = np.concatenate([neck, rest], axis=1)
    >>> first = -neck / 9 - 2 + 0.5 * np.sum(rest**2, axis=1, keepdims=True) * np.exp(-neck)
    >>> scores = np.concatenate([first, -rest * np.exp(-neck)], axis=1)
    >>> c = srmc.learn_coordinates(draws, scores, names=("neck", "a", "b", "c", "d"))
    >>> c.table[0].modulator, c.table[0].of
    ('neck', ('a', 'b', 'c', 'd'))
    """
    x, s = _as_rows("draws", draws), _as_rows("scores", scores)
    if x.shape != s.shape:
        raise ValueError(f"scores must have the shape of draws, {x.shape}, got {s.shape}")
    d = x.shape[2]
    if names and len(names) != d:
        raise ValueError(f"names must be those of {d} coordinates, got {len(names)}")
    fitted, held = _split(x, s)
    if len(fitted[0]) < rule.LEAST_DRAWS or not len(held[0]) or d < 2:
        return identity(d, np.nan, tuple(names))
    center, scale = _standard(fitted[0])
    fitted, held = (((x - center) / scale, s * scale) for x, s in (fitted, held))
    before = whitened(fitted, held)
    if not before >= (0 if always else rule.WORTH):
        return identity(d, before, tuple(names))
    found = search(fitted, held, before)
    least = before - rule.WORTH, rule.SHARE_LEFT * before
    if found.left >= (before if always else min(least)):
        return identity(d, before, tuple(names))
    return _coordinates(found, center, scale, held, before, tuple(names))


def _coordinates(
    found: Found,
    center: np.ndarray,
    scale: np.ndarray,
    held: Rows,
    before: float,
    names: tuple[str, ...],
) -> Coordinates:
    back = np.argsort(found.order)
    rows = found.weights._replace(**{k: v[back] for k, v in found.weights._asdict().items()})
    q = rows.linear.shape[1]
    z, s = held
    at = mapped(found.weights, z[:, found.order], s[:, found.order])
    plain, left = (_own(u, score) for u, score in (_centred(z, s), (at.u, at.score)))
    return Coordinates(
        **{name: jnp.asarray(part) for name, part in rows._asdict().items()},
        center=jnp.asarray(center),
        scale=jnp.asarray(scale),
        modulators=jnp.asarray(found.order[:q]),
        divergence=jnp.asarray([before, found.left]),
        explained=jnp.asarray(np.clip(1 - left[back] / np.maximum(plain, 1e-30), 0, 1)),
        names=names,
    )


def _own(u: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Each coordinate's own part of the divergence, bounded."""
    own: np.ndarray = np.mean(np.log1p((u + s) ** 2 / rule.SHARE), axis=0)
    return own


def _centred(z: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Rows:
    """Each coordinate, scaled so that a Gaussian would have the smallest divergence."""
    a = np.sqrt(np.maximum(z.var(axis=0), 1e-30) / np.maximum(s.var(axis=0), 1e-30))
    return (z - z.mean(axis=0) - a * s.mean(axis=0)) / np.sqrt(a), s * np.sqrt(a)


def _as_rows(name: str, value: ArrayLike) -> Float[np.ndarray, "chain draw d"]:
    array = as_numbers(name, value, "an array (chain, draw, d) or (draw, d)")
    if array.ndim not in (2, 3):
        raise ValueError(f"{name} must be (chain, draw, d) or (draw, d), got shape {array.shape}")
    return array if array.ndim == 3 else array[None]


def _split(x: np.ndarray, s: np.ndarray) -> tuple[Rows, Rows]:
    """The draws to fit, thinned, and those held out: the middle third of each chain."""
    third = np.arange(x.shape[1]) * 3 // max(1, x.shape[1])
    most = int(np.clip(rule.NUMBERS // x.shape[2], *rule.DRAWS))

    def rows(chosen: np.ndarray) -> Rows:
        both = x[:, chosen].reshape(-1, x.shape[2]), s[:, chosen].reshape(-1, x.shape[2])
        fine = np.all(np.isfinite(both[0]) & np.isfinite(both[1]), axis=1)
        every = max(1, -(-int(fine.sum()) // most))
        return both[0][fine][::every], both[1][fine][::every]

    return rows(third != 1), rows(third == 1)


def _standard(x: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
    """A center and a scale of each coordinate that no tail moves."""
    low, center, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    scale, spread = (high - low) / 1.349, x.std(axis=0)
    scale = np.where(scale > 0.01 * spread, scale, spread)
    return center, np.where(scale > 1e-8 * (1 + np.abs(center)), scale, 1.0)
