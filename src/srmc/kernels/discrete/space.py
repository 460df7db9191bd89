"""Discrete spaces: products of one finite set over sites, relaxed to arrays of floats."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from srmc._checks import as_numbers, check_count, check_flag, is_concrete, short
from srmc.types import Array, ArrayLike, Float, Int, PRNGKey


@dataclasses.dataclass(frozen=True)
class Space:
    """The values that a site can hold, as a number or as a row of a one-hot array.

    A state is an array of floats whose sites are its entries, or its rows if `one_hot`.
    """

    num_values: int
    one_hot: bool

    def __post_init__(self) -> None:
        check_count("num_values", self.num_values, at_least=2)
        check_flag("one_hot", self.one_hot)

    @property
    def width(self) -> int:
        """The number of entries per site in the relaxed state."""
        return self.num_values if self.one_hot else 1

    def num_sites(self, x: Array) -> int:
        """The number of sites of a state."""
        return x.size // self.width

    def num_neighbours(self, x: Array) -> int:
        """The number of states that differ from a state in one site."""
        return self.num_sites(x) * (self.num_values - 1)

    def rows(self, x: Array) -> Float[Array, "site width"]:
        """The state, or anything in its shape, as (site, width)."""
        return x.reshape(-1, self.width)

    def points(self, dtype: DTypeLike) -> Float[Array, "value width"]:
        """The relaxed values, (value, width)."""
        if self.one_hot:
            return jnp.eye(self.num_values, dtype=dtype)
        return jnp.arange(self.num_values, dtype=dtype)[:, None]

    def labels(self, x: Array) -> Int[Array, " site"]:
        """The values that the sites hold, as integers."""
        rows = self.rows(x)
        return jnp.argmax(rows, axis=1) if self.one_hot else jnp.round(rows[:, 0]).astype(int)

    def label(self, x: Array, site: Int[Array, ""]) -> Int[Array, ""]:
        """The value that one site holds, as an integer."""
        row = self.rows(x)[site]
        return jnp.argmax(row) if self.one_hot else jnp.round(row[0]).astype(int)

    def place(self, x: Array, sites: ArrayLike, values: ArrayLike) -> Array:
        """The state with other values, given as integers, at some sites."""
        rows = self.rows(x)
        return rows.at[sites].set(self.points(x.dtype)[values]).reshape(x.shape)

    def state(self, labels: Int[Array, " site"], like: Array) -> Array:
        """The state that holds these values, with the shape and dtype of another."""
        return self.points(like.dtype)[labels].reshape(like.shape)

    def linear(self, x: Array, gradient: Array) -> Float[Array, "site value"]:
        """`gradient_i · (value k - x_i)`, (site, value): first-order changes of a function."""
        g = self.rows(gradient)  # its product with a one-hot value is one of its entries
        at_values = g if self.one_hot else g * self.points(x.dtype).T
        return at_values - jnp.sum(g * self.rows(x), axis=1)[:, None]

    def distances(self, x: Array) -> Float[Array, "site value"]:
        """`|value k - x_i|^2`, (site, value)."""
        points = self.points(x.dtype)
        return jnp.sum((points[None] - self.rows(x)[:, None]) ** 2, axis=2)

    def mean(self, probabilities: Float[Array, "site value"], like: Array) -> Array:
        """The mean of each site, in the shape of a state, from (site, value) probabilities."""
        return (probabilities @ self.points(like.dtype)).reshape(like.shape)

    def random(self, rng_key: PRNGKey, like: Array) -> Array:
        """A state drawn uniformly, with the shape and dtype of another."""
        sites = self.num_sites(like)
        return self.state(jax.random.randint(rng_key, (sites,), 0, self.num_values), like)

    def as_state(self, position: ArrayLike, name: str = "position") -> Array:
        """An initial position as a state; integers are taken as the values themselves."""
        if is_concrete(position):
            as_numbers(name, position)  # raises for everything else
        x = jnp.asarray(position)
        if not x.size:
            raise ValueError(f"{name} must hold at least one site, got {position!r}")
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return self._from_integers(x, name)
        if self.one_hot and (x.ndim < 1 or x.shape[-1] != self.num_values):
            raise ValueError(
                f"{name} must have rows of {self.num_values} numbers for {self}, or be integers, "
                f"got shape {x.shape}"
            )
        if is_concrete(x):
            labels = jnp.clip(self.labels(jnp.nan_to_num(x)), 0, self.num_values - 1)
            if not bool(jnp.all(self.state(labels, x) == x)):
                raise ValueError(f"{name} must be in {self}, got {short(x)}")
        return x

    def _from_integers(self, x: Array, name: str) -> Array:
        if is_concrete(x) and not np.all((np.asarray(x) >= 0) & (np.asarray(x) < self.num_values)):
            raise ValueError(f"{name} must be in {self}, got {short(x)}")
        points = self.points(float)[x.astype(int)]
        return points if self.one_hot else points[..., 0]

    def all_states(self, shape: tuple[int, ...]) -> Float[np.ndarray, "state ..."]:
        """Every state whose sites have this shape, if there are at most 2^20 of them."""
        for size in shape:
            check_count("shape", size)
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


def Binary() -> Space:
    """Sites that hold 0 or 1."""
    return Space(2, one_hot=False)


def Ordinal(num_values: int) -> Space:
    """Sites that hold a number from 0 to K - 1, which log densities take unchanged."""
    return Space(num_values, one_hot=False)


def Categorical(num_values: int) -> Space:
    """Sites that hold one of K values without order; log densities take one-hot rows.

    An initial position may be given as one-hot rows of floats, or as integers: the values.
    """
    return Space(num_values, one_hot=True)
