"""A log density on a discrete space, with what a kernel and the history need of it.

What is evaluated at a state does not depend on theta, so that bending it again is free.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from srmc.kernels.discrete import features
from srmc.kernels.discrete.changes import (
    Differences,
    SiteDifferences,
    allowed,
    evaluated_changes,
    one_site_changes,
    over_neighbours,
    supplied_changes,
)
from srmc.kernels.discrete.features import (
    Evaluated,
    SiteChanges,
    check_discrete_start,
    check_feature_kind,
)
from srmc.kernels.discrete.space import Space
from srmc.repel.surrogate import Surrogate, Tilt
from srmc.repel.target import Target
from srmc.types import Array, Feature, Float, Int, LogDensity, PyTree, Scalar


class Local(NamedTuple):
    """What is known about the target at a state; none of it depends on theta."""

    logdensity: Scalar  # log density of the state
    # The changes of the log density that proposals go by, exact or to first order.
    guide: SiteChanges = None
    changes: SiteChanges = None  # exact changes, where bending needs them in addition to the guide
    feature: Feature = None  # what the history averages, in the shape of a state
    # What changes of one site are found from, if the target supplies these; see `SiteDifferences`.
    kept: PyTree[Array] = None


class View(NamedTuple):
    """A target on a space."""

    space: Space
    look: Callable[[Array], Local]  # evaluates the target at a state
    # `(x, local, site, value) -> (y, Local)`: the state with another value at one site, and what is
    # known about the target there.
    visit: Callable[..., tuple[Array, Local]]
    # `(x, local, site=None) -> Local` under the surrogate; the plain target returns `local`
    # unchanged. With a site, states are compared that differ in it alone, so that a term that they
    # share may be left out of the log density.
    bend: Callable[..., Local]
    # The cost of a look and of a bend at a state, in values, gradients and sets of differences.
    evaluations: Callable[[Array], tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Sites:
    """A log density on a space, with the guide that a kernel needs and the history's feature."""

    logdensity_fn: LogDensity
    space: Space
    # The changes of the log density that the kernel goes by: "gradient", "exact" or None.
    guide: str | None = None
    # One of "gibbs", "stein", "relaxed-gibbs" and "relaxed"; None chooses.
    feature: str | None = None
    # The changes of the log density at a state, if the target supplies them.
    differences: Differences | None = None
    # A tilt, whose gradient then guides the proposals that go by a gradient.
    surrogate: Surrogate | None = None
    # What the target is bent by: "feature", or "sites", the values of the sites themselves.
    bend: str = "feature"

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be srmc.Binary() or another space, got {self.space!r}")
        if self.surrogate is not None:
            feature = features.tilted_kind(self.surrogate, self.feature)
            object.__setattr__(self, "feature", feature)
        if self.feature is not None:
            features.check_kind(self.feature, self.space)
        features.check_bend(self.bend, self.feature)
        if self.differences is not None and not callable(self.differences):
            raise TypeError(f"differences must be a function of a state, got {self.differences!r}")

    @property
    def target(self) -> Target:
        return Target(self.logdensity_fn)

    @property
    def by_sites(self) -> bool:
        return self.bend == "sites"

    @property
    def one_site(self) -> SiteDifferences | None:
        """The changes of one site, unless changes of all sites guide the kernel."""
        usable = self.guide is None and isinstance(self.differences, SiteDifferences)
        return self.differences if usable else None  # type: ignore[return-value]

    def plain(self) -> View:
        """The target itself, without a feature."""
        return View(
            self.space,
            lambda x: self.look(x, with_feature=False),
            self._visit_plainly,
            lambda x, local, site=None: local,
            lambda x: (self._cost(x, None), 0),
        )

    def bent(self, u: Array, alpha: Scalar) -> View:
        """The surrogate log pi(x) - alpha u·phi(x), or log pi(x) + alpha u·x."""
        if self.by_sites:
            by_sites = lambda x, local, site=None: self._bend_by_sites(x, local, u, alpha, site)
            return self.plain()._replace(bend=by_sites)
        return View(
            self.space,
            self.look,
            self._visit,
            lambda x, local, site=None: self.bend_by_feature(x, local, u, alpha),
            lambda x: (self._cost(x, self.chosen(x)), self._bend_cost(x)),
        )

    def chosen(self, x: Array) -> str:
        """The given feature, or the default for a state of this size."""
        if self.feature is not None:
            return self.feature
        return features.default_kind(self.space, x, self.differences is not None)

    def look(self, x: Array, with_feature: bool = True) -> Local:
        """What is known about the target at a state."""
        kind = self.chosen(x) if with_feature else None
        seen = self._evaluate(x, self._takes_gradient(kind), self._takes_changes(kind))
        guides = {"exact": seen.changes, "gradient": seen.first_order, None: None}
        keeps_changes = kind == "stein" and self.guide == "gradient"
        return Local(
            logdensity=seen.logdensity,
            guide=guides[self.guide],
            changes=seen.changes if keeps_changes else None,
            feature=None if kind is None else features.feature_at(kind, self.space, x, seen),
            kept=None if with_feature or self.one_site is None else self.one_site.keep(x),
        )

    def _visit(
        self, x: Array, local: Local, site: Int[Array, ""], value: Int[Array, ""]
    ) -> tuple[Array, Local]:
        y = self.space.place(x, site, value)
        return y, self.look(y)

    def _visit_plainly(
        self, x: Array, local: Local, site: Int[Array, ""], value: Int[Array, ""]
    ) -> tuple[Array, Local]:
        """Without a feature, and by the changes of one site if the target supplies them."""
        y = self.space.place(x, site, value)
        if self.one_site is None:
            return y, self.look(y, with_feature=False)
        change = one_site_changes(self.one_site, self.space, local.kept, x, site)[value]
        kept = self.one_site.move(local.kept, x, site, value)
        return y, Local(local.logdensity + change, kept=kept)

    def feature_at(self, x: Array, local: Local) -> Array:
        """The feature at a state, from what the kernel evaluated there where possible."""
        if local.feature is not None:
            return local.feature
        kind = self.chosen(x)
        seen = Evaluated(local.logdensity, None, local.guide, local.guide)
        if not self._is_guided_by(kind):
            seen = self._evaluate(x, features.needs_gradient(kind), features.needs_changes(kind))
        return features.feature_at(kind, self.space, x, seen)

    def feature_cost(self, x: Array) -> int:
        """The evaluations per feature, where the target is bent by sites."""
        kind = self.chosen(x)
        if self._is_guided_by(kind):
            return 0
        return 1 if features.needs_gradient(kind) else self._changes_cost(x)

    def steps_per_update(self, x: Array, sweeps: bool) -> int:
        """The steps per update of the history that keep features cheap.

        They then take at most one evaluation per step, and where a step changes one site, they are
        taken when about a quarter of the sites may have changed.
        """
        if not self.by_sites:
            return 1  # every step takes the feature
        changed = 1 if sweeps else self.space.num_sites(x) // 4
        return max(1, changed, self.feature_cost(x))

    def _is_guided_by(self, kind: str) -> bool:
        """Whether the feature follows from the changes that guide the kernel."""
        return (kind, self.guide) in (("gibbs", "exact"), ("relaxed-gibbs", "gradient"))

    def bend_by_feature(self, x: Array, local: Local, u: Array, alpha: Scalar) -> Local:
        """`local` on the surrogate, whose log density is log pi(x) - alpha u·phi(x).

        The changes that guide proposals are exact if those of the target are. To first order they
        leave out how the features of the other sites change with a site, which would take a
        Hessian-vector product; with a tilt, they are those of its gradient, product and all. The
        acceptance probability is exact in any case.
        """
        alpha = alpha.astype(x.dtype)
        potential = jnp.vdot(u, local.feature)
        bent = local._replace(logdensity=local.logdensity - alpha * potential)
        if self.guide is None:
            return bent
        if self.guide == "exact":
            return bent._replace(guide=self._exact_guide(x, local, u, alpha, potential))
        if isinstance(self.surrogate, Tilt):
            return bent._replace(guide=self._tilted_guide(self.surrogate, x, local, u, alpha))
        return bent._replace(guide=self._first_order_guide(x, local, u, alpha))

    def _bend_by_sites(
        self, x: Array, local: Local, u: Array, alpha: Scalar, site: Int[Array, ""] | None
    ) -> Local:
        """`local` on the surrogate log pi(x) + alpha u·x, whose changes are exact and cost nothing.

        Since E[phi_i x_j] = 0 for i != j, each theta_i is driven by its own site alone.
        """
        alpha = alpha.astype(x.dtype)
        chosen = slice(None) if site is None else site
        pulled = alpha * jnp.vdot(self.space.rows(u)[chosen], self.space.rows(x)[chosen])
        bent = local._replace(logdensity=local.logdensity + pulled)
        if self.guide is None:
            return bent
        return bent._replace(guide=local.guide + alpha * self.space.linear(x, u))

    def check_start(self, x: Array) -> None:
        """Raise for a log density that the kernel cannot work with."""
        takes_gradient = self._takes_gradient(None)
        check_discrete_start(self.logdensity_fn, self.space, x, takes_gradient)

    def check_feature(self, x: Array) -> None:
        """Raise if the feature needs a gradient that does not exist; warn about bias."""
        check_feature_kind(self.chosen(x), self.logdensity_fn, self.space, x)

    def _evaluate(self, x: Array, takes_gradient: bool, takes_changes: bool) -> Evaluated:
        """What the kernel and a feature need at a state."""
        if takes_gradient:
            value, gradient = jax.value_and_grad(self.target)(x)
            seen = Evaluated(value, gradient, allowed(self.space.linear(x, gradient)))
        else:
            seen = Evaluated(self.target(x))
        if not takes_changes:
            return seen
        if self.differences is None:
            changes = evaluated_changes(self.target, self.space, x, seen.logdensity)
        else:
            changes = supplied_changes(self.differences, self.space, x)
        return seen._replace(changes=changes)

    def _exact_guide(
        self, x: Array, local: Local, u: Array, alpha: Scalar, potential: Scalar
    ) -> Float[Array, "site value"]:
        def at_neighbour(y: Array) -> Scalar:
            return jnp.vdot(u, self.look(y).feature)

        more = over_neighbours(self.space, x, at_neighbour, potential) - potential
        return allowed(local.guide - alpha * more)

    def _tilted_guide(
        self, tilt: Tilt, x: Array, local: Local, u: Array, alpha: Scalar
    ) -> Float[Array, "site value"]:
        """The changes that the surrogate score s + alpha (Hess U) u predicts (alg:sr_discrete)."""
        _, gradient = tilt.again(self.target, x, local.logdensity, local.feature, u, alpha)
        return allowed(self.space.linear(x, gradient))

    def _first_order_guide(
        self, x: Array, local: Local, u: Array, alpha: Scalar
    ) -> Float[Array, "site value"]:
        kind = self.chosen(x)
        guide: Float[Array, "site value"] = local.guide
        if kind in ("gibbs", "relaxed-gibbs"):  # E[x_i given the rest] does not change with x_i
            return guide + alpha * self.space.linear(x, u)
        if kind == "stein":
            own = features.own_stein_change(self.space, x, local.changes)
            return allowed(guide - alpha * u.reshape(-1, 1) * own)
        return guide

    def _takes_gradient(self, kind: str | None) -> bool:
        return self.guide == "gradient" or features.needs_gradient(kind)

    def _takes_changes(self, kind: str | None) -> bool:
        return self.guide == "exact" or features.needs_changes(kind)

    def _cost(self, x: Array, kind: str | None) -> int:
        """The evaluations per look."""
        return 1 + self._takes_changes(kind) * self._changes_cost(x)

    def _bend_cost(self, x: Array) -> int:
        """The evaluations per bend: the features of all neighbours, if the guide is exact."""
        if self.guide != "exact":
            return self._tilt_cost()[0]
        per_feature = 1 if self._takes_gradient(self.chosen(x)) else self._changes_cost(x)
        return self.space.num_neighbours(x) * per_feature

    def products(self, x: Array, evaluations: Array) -> Array:
        """The number of a step's evaluations that were Hessian-vector products."""
        with_product = self._tilt_cost()[1]
        return with_product * (evaluations - self._cost(x, self.chosen(x)))

    def _tilt_cost(self) -> tuple[int, int]:
        """The gradients, and products among them, that a tilt takes to guide a proposal."""
        if self.guide != "gradient" or not isinstance(self.surrogate, Tilt):
            return 0, 0
        return self.surrogate.again_cost

    def _changes_cost(self, x: Array) -> int:
        if self.differences is None:
            return self.space.num_neighbours(x)
        return getattr(self.differences, "cost", 1)
