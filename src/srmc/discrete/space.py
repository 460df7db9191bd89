"""Discrete spaces: products of one finite set over sites, relaxed to arrays of floats."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, is_concrete


@dataclasses.dataclass(frozen=True)
class Space:
    """What a site can hold, as a number or as a row of a one-hot array.

    A state is an array of floats whose sites are its entries, or its rows if `one_hot`.
    """

    num_values: int
    one_hot: bool

    @property
    def width(self) -> int:
        """Numbers a site takes in the relaxed state."""
        return self.num_values if self.one_hot else 1

    def rows(self, x: jax.Array) -> jax.Array:
        """The state, or anything in its shape, as (site, width)."""
        return x.reshape(-1, self.width)

    def points(self, dtype: Any) -> jax.Array:
        """The relaxed values, (value, width)."""
        if self.one_hot:
            return jnp.eye(self.num_values, dtype=dtype)
        return jnp.arange(self.num_values, dtype=dtype)[:, None]

    def labels(self, x: jax.Array) -> jax.Array:
        """The values that the sites hold, as integers."""
        rows = self.rows(x)
        return jnp.argmax(rows, axis=1) if self.one_hot else jnp.round(rows[:, 0]).astype(int)

    def place(self, x: jax.Array, sites: jax.Array, values: jax.Array) -> jax.Array:
        """The state with other values at some sites."""
        rows = self.rows(x)
        return rows.at[sites].set(self.points(x.dtype)[values]).reshape(x.shape)

    def state(self, labels: jax.Array, like: jax.Array) -> jax.Array:
        """The state that holds these values, in the shape and the type of another."""
        return self.points(like.dtype)[labels].reshape(like.shape)

    def linear(self, x: jax.Array, gradient: jax.Array) -> jax.Array:
        """`gradient_i · (value k - x_i)`, (site, value): first-order changes of a function."""
        g = self.rows(gradient)
        return g @ self.points(x.dtype).T - jnp.sum(g * self.rows(x), axis=1)[:, None]

    def distances(self, x: jax.Array) -> jax.Array:
        """`|value k - x_i|^2`, (site, value)."""
        points = self.points(x.dtype)
        return jnp.sum((points[None] - self.rows(x)[:, None]) ** 2, axis=2)

    def mean(self, probabilities: jax.Array, like: jax.Array) -> jax.Array:
        """The mean of each site, in the shape of a state, from (site, value) probabilities."""
        return (probabilities @ self.points(like.dtype)).reshape(like.shape)

    def random(self, rng_key: jax.Array, like: jax.Array) -> jax.Array:
        """A state drawn uniformly, in the shape and the type of another."""
        sites = like.size // self.width
        return self.state(jax.random.randint(rng_key, (sites,), 0, self.num_values), like)

    def as_state(self, position: Any) -> jax.Array:
        """A start as a state; integers are the values themselves."""
        x = jnp.asarray(position)
        if not x.size:
            raise ValueError(f"position must hold at least one site, got {position!r}")
        given_labels = not jnp.issubdtype(x.dtype, jnp.floating)
        if given_labels:
            if not (jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == bool):
                raise TypeError(f"position must be an array of numbers, got {x.dtype}")
            if is_concrete(x) and not np.all(
                (np.asarray(x) >= 0) & (np.asarray(x) < self.num_values)
            ):
                raise ValueError(f"position must be in {self}, got {_first(position)}")
            points = self.points(float)[x.astype(int)]
            return points if self.one_hot else points[..., 0]
        if self.one_hot and (x.ndim < 1 or x.shape[-1] != self.num_values):
            raise ValueError(
                f"position must have rows of {self.num_values} numbers for {self}, or be integers, "
                f"got shape {x.shape}"
            )
        if is_concrete(x) and not bool(jnp.all(self.state(self._clipped(x), x) == x)):
            raise ValueError(f"position must be in {self}, got {_first(position)}")
        return x

    def _clipped(self, x):
        return jnp.clip(self.labels(jnp.nan_to_num(x)), 0, self.num_values - 1)

    def all_states(self, shape: tuple[int, ...]) -> np.ndarray:
        """Every state whose sites have this shape, (state, ...); for at most 2^20 of them."""
        sites = int(np.prod(shape))
        count = self.num_values**sites
        if count > 2**20:
            raise ValueError(f"shape must have at most 2^20 states, got {shape}, which has {count}")
        digits = self.num_values ** np.arange(sites)
        labels = np.arange(count)[:, None] // digits % self.num_values
        if self.one_hot:
            return np.eye(self.num_values)[labels].reshape(count, *shape, self.num_values)
        return labels.astype(float).reshape(count, *shape)

    def __str__(self) -> str:
        if self.one_hot:
            return f"Categorical({self.num_values})"
        return "Binary()" if self.num_values == 2 else f"Ordinal({self.num_values})"


def _first(position):
    text = str(position)
    return text if len(text) < 200 else text[:200] + "..."


def Binary() -> Space:
    """Sites that hold 0 or 1."""
    return Space(2, one_hot=False)


def Ordinal(num_values: int) -> Space:
    """Sites that hold a number out of 0 .. K-1, which log densities take as it is."""
    check_count("num_values", num_values, at_least=2)
    return Space(num_values, one_hot=False)


def Categorical(num_values: int) -> Space:
    """Sites that hold one out of K values without order; log densities take one-hot rows.

    A start may be given as one-hot rows of floats, or as integers, which are the values.
    """
    check_count("num_values", num_values, at_least=2)
    return Space(num_values, one_hot=True)
