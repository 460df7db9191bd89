"""A discrete target seen from a state: its log density, one-site changes, and the feature.

All of it is free of theta, so that a state that was looked at once is bent anew at no cost.
"""

import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_option, is_concrete
from srmc.core.target import LogDensity, check_density, rejecting
from srmc.discrete.space import Space

Changes = Callable[[jax.Array], jax.Array]
FEATURES = ("gibbs", "stein", "relaxed-gibbs", "relaxed")
AFFORDABLE = 64  # evaluations for the flips of a state, beyond which one gradient stands in
_COMPARED: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # by log density
CHUNK = 2**18  # numbers in the states that are evaluated at once


class Local(NamedTuple):
    """What is known of the target at a state.

    logdensity
        Of the state.
    guide
        What proposals go by: (site, value) changes of the log density, exact or of first order.
    changes
        The exact ones, where bending needs them beside the guide.
    feature
        What the history averages, in the shape of a state.
    """

    logdensity: jax.Array
    guide: Any = None
    changes: Any = None
    feature: Any = None


class View(NamedTuple):
    """A target on a space, as kernels see it.

    look
        From a state to `Local`.
    bend
        `(x, local) -> Local` under the surrogate; the plain target returns it as it is.
    evaluations
        What a look costs, and a bend, given a state: values, gradients and sets of differences.
    """

    space: Space
    look: Callable[[jax.Array], Local]
    bend: Callable[[jax.Array, Local], Local]
    evaluations: Callable[[jax.Array], tuple[int, int]]


class Sites:
    """A log density on a space, with the guide that a kernel needs and the history's feature."""

    def __init__(
        self,
        logdensity_fn: LogDensity,
        space: Space,
        guide: str | None = None,
        feature: str | None = None,
        differences: Changes | None = None,
    ):
        if not isinstance(space, Space):
            raise TypeError(f"space must be srmc.Binary() or another space, got {space!r}")
        if feature is not None:
            check_option("feature", feature, FEATURES)
            if feature == "stein" and space.one_hot:
                raise ValueError(
                    f"feature='stein' needs an order of values, which {space} has not; "
                    "use feature='gibbs'"
                )
        if differences is not None and not callable(differences):
            raise TypeError(f"differences must be a function of a state, got {differences!r}")
        self.logdensity_fn = logdensity_fn
        self.target = rejecting(logdensity_fn)
        self.space, self.guide, self.feature = space, guide, feature
        self.differences = differences

    def plain(self) -> View:
        """The target itself, without a feature."""
        return View(
            self.space,
            lambda x: self.look(x, with_feature=False),
            lambda x, local: local,
            lambda x: (self._cost(x, None), 0),
        )

    def bent(self, u: jax.Array, alpha: jax.Array) -> View:
        """The surrogate log pi(x) - alpha u·phi(x)."""
        return View(
            self.space,
            self.look,
            lambda x, local: self.bend(x, local, u, alpha),
            lambda x: (self._cost(x, self.chosen(x)), self._bend_cost(x)),
        )

    def chosen(self, x: jax.Array) -> str:
        """The feature; by default the Gibbs residual, from a gradient if flips are too many."""
        if self.feature is not None:
            return self.feature
        affordable = self.differences is not None or self._flips(x) <= AFFORDABLE
        return "gibbs" if affordable else "relaxed-gibbs"

    def look(self, x: jax.Array, with_feature: bool = True) -> Local:
        kind = self.chosen(x) if with_feature else None
        if self._needs_gradient(kind):
            value, gradient = jax.value_and_grad(self.target)(x)
            first_order = _allowed(self.space.linear(x, gradient))
        else:
            value = self.target(x)
        changes = self._changes(x, value) if self._needs_changes(kind) else None
        guide = None
        if self.guide is not None:
            guide = changes if self.guide == "exact" else first_order
        if kind == "gibbs":
            feature = self._residual(x, changes)
        elif kind == "relaxed-gibbs":
            feature = self._residual(x, first_order)
        elif kind == "stein":
            feature = jnp.expm1(self._reversed(x, changes)).reshape(x.shape)
        else:
            feature = gradient if kind == "relaxed" else None
        keeps = kind == "stein" and self.guide == "gradient"
        return Local(value, guide, changes if keeps else None, feature)

    def bend(self, x: jax.Array, local: Local, u: jax.Array, alpha: jax.Array) -> Local:
        """`local` on the surrogate, whose log density is log pi(x) - alpha u·phi(x).

        Its changes are exact where those of the guide are. Elsewhere, as guides of first order,
        they leave out what other sites' features do when a site changes, which would take a
        Hessian-vector product; the acceptance is exact in any case.
        """
        alpha = alpha.astype(x.dtype)
        potential = jnp.vdot(u, local.feature)
        bent = local._replace(logdensity=local.logdensity - alpha * potential)
        if self.guide == "exact":
            there = lambda y: jnp.vdot(u, self.look(y).feature)
            more = over_neighbours(self.space, x, there, potential) - potential
            return bent._replace(guide=_allowed(local.guide - alpha * more))
        if self.guide is None:
            return bent
        kind = self.chosen(x)
        if kind in ("gibbs", "relaxed-gibbs"):  # E[x_i given the rest] does not change with x_i
            return bent._replace(guide=local.guide + alpha * self.space.linear(x, u))
        if kind == "stein":
            own = jnp.exp(local.changes[:, ::-1] - local.changes)
            own = own - jnp.exp(self._reversed(x, local.changes))[:, None]
            return bent._replace(guide=_allowed(local.guide - alpha * u.reshape(-1, 1) * own))
        return bent

    def check_start(self, x: jax.Array) -> None:
        """Refuse what kernel and feature cannot work with; warn of a feature that is biased."""
        check_density(self.logdensity_fn, x)
        value = self.logdensity_fn(x) if is_concrete(x) else 0.0
        if is_concrete(value) and not np.isfinite(value):
            raise ValueError(f"logdensity_fn must be finite at the start, got {value} at {x!r}")
        if self._needs_gradient(None):
            self._check_gradient(x)

    def check_feature(self, x: jax.Array) -> None:
        """Warn of a feature whose mean under the target is not zero."""
        kind = self.chosen(x)
        if self._needs_gradient(kind):
            self._check_gradient(x)
        if kind == "relaxed":
            warnings.warn(
                "feature='relaxed' has no zero mean under the target, so that theta settles away "
                "from 0 and the chain converges to another distribution; feature='gibbs' is exact",
                stacklevel=3,
            )
        if kind == "relaxed-gibbs" and not self._is_linear(x):
            warnings.warn(
                "feature='relaxed-gibbs' has zero mean only if the log density is linear in each "
                "site, which this one is not: the chain converges to another distribution; "
                "feature='gibbs' is exact, and cheap if `differences` is given",
                stacklevel=3,
            )

    def _check_gradient(self, x):
        try:
            jax.eval_shape(jax.grad(self.logdensity_fn), x)
        except Exception as error:
            raise TypeError(
                "logdensity_fn must be differentiable for a kernel or a feature that takes its "
                f"gradient; flip_mh, gibbs and locally_balanced take none: {error}"
            ) from error
        slopes, exact = self._compared(x)
        if exact is not None and np.any(exact != 0) and np.all(slopes == 0):
            raise ValueError(
                "logdensity_fn must have a gradient that tells its changes apart, got 0 everywhere "
                "(is its input rounded?); flip_mh, gibbs and locally_balanced need none"
            )

    def _is_linear(self, x):
        slopes, exact = self._compared(x)
        return exact is None or np.allclose(slopes, exact, rtol=1e-3, atol=1e-3)

    def _compared(self, x):
        """Changes at some sites of a random state by the gradient, and exactly if known now."""
        try:
            seen = _COMPARED.setdefault(self.logdensity_fn, {})
        except TypeError:  # a callable without a hash, such as a module with arrays
            seen = {}
        key = x.shape, x.dtype, self.space
        if key not in seen:
            out = jax.jit(self._compare)(jnp.zeros(x.shape, x.dtype))
            if not is_concrete(out):
                with jax.ensure_compile_time_eval():
                    out = self._compare(jnp.zeros(x.shape, x.dtype))
            if not is_concrete(out):  # the log density closes over what is being traced
                return None, None
            seen[key] = jax.tree.map(np.asarray, out)
        return seen[key]

    def _compare(self, like, num_sites=8):
        space = self.space
        state = space.random(jax.random.key(0), like)
        value, gradient = jax.value_and_grad(self.target)(state)
        sites = np.unique(np.linspace(0, like.size // space.width - 1, num_sites).astype(int))
        at = lambda i, k: self.target(space.place(state, i, k)) - value
        exact = jax.vmap(jax.vmap(at, (None, 0)), (0, None))(sites, np.arange(space.num_values))
        return space.linear(state, gradient)[sites], exact

    def _flips(self, x):
        return x.size // self.space.width * (self.space.num_values - 1)

    def _needs_gradient(self, kind):
        return self.guide == "gradient" or kind in ("relaxed", "relaxed-gibbs")

    def _needs_changes(self, kind):
        return self.guide == "exact" or kind in ("gibbs", "stein")

    def _cost(self, x, kind):
        flips = 1 if self.differences is not None else self._flips(x)
        return 1 + self._needs_changes(kind) * flips

    def _bend_cost(self, x):
        """Of the features of all neighbours, for exact changes of the surrogate."""
        if self.guide != "exact":
            return 0
        flips = 1 if self.differences is not None else self._flips(x)
        return self._flips(x) * (1 if self._needs_gradient(self.chosen(x)) else flips)

    def _changes(self, x, value):
        if self.differences is None:
            return _allowed(over_neighbours(self.space, x, self.target, value) - value)
        changes = self.differences(x)
        sites, values = x.size // self.space.width, self.space.num_values
        if values == 2 and changes.shape == x.shape:
            stay = jnp.zeros((sites,), changes.dtype)
            changes = jnp.stack([stay, changes.ravel()], axis=1)
            held = self.space.labels(x)[:, None]
            changes = jnp.take_along_axis(changes, jnp.concatenate([held, 1 - held], 1), axis=1)
        if changes.shape != (sites, values):
            raise ValueError(
                f"differences must return changes of shape {(sites, values)}, for each site and "
                f"value, got {changes.shape}"
            )
        return _allowed(changes)

    def _residual(self, x, changes):
        """E[x_i given the rest] - x_i."""
        if self.space.num_values == 2 and not self.space.one_hot:
            return jax.nn.sigmoid(changes[:, 1] - changes[:, 0]).reshape(x.shape) - x
        return self.space.mean(jax.nn.softmax(changes, axis=1), x) - x

    def _reversed(self, x, changes):
        """The change at x_i -> K - 1 - x_i, which is its own inverse."""
        other = self.space.num_values - 1 - self.space.labels(x)
        return jnp.take_along_axis(changes, other[:, None], axis=1)[:, 0]


def over_neighbours(
    space: Space, x: jax.Array, function: Callable[[jax.Array], jax.Array], here: jax.Array
) -> jax.Array:
    """A function of the states that differ from x in one site, (site, value); `here` is its own."""
    labels, values = space.labels(x), space.num_values
    sites = len(labels)

    def one(index):
        site, other = index // (values - 1), 1 + index % (values - 1)
        return function(space.place(x, site, (labels[site] + other) % values))

    count = sites * (values - 1)
    batch = min(count, max(1, CHUNK // x.size))
    others = jax.lax.map(one, jnp.arange(count), batch_size=batch).reshape(sites, values - 1)
    by_offset = jnp.concatenate([jnp.full((sites, 1), here, others.dtype), others], axis=1)
    offsets = (jnp.arange(values)[None] - labels[:, None]) % values
    return jnp.take_along_axis(by_offset, offsets, axis=1)


def _allowed(changes):
    """Changes that are not known lead nowhere."""
    return jnp.where(jnp.isnan(changes) | (changes == jnp.inf), -jnp.inf, changes)
