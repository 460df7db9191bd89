"""What a repelled chain carries from step to step, and what a step reports."""

from typing import NamedTuple

from srmc.types import Array, Bool, Feature, Float, Int, KernelInfo, KernelState, Position, Score


class RepelState(NamedTuple):
    """The state of a repelled chain.

    position
        The draw, X.
    theta
        The history: the running average of the score, or of the features of a field.
    alpha
        The strength of the next step.
    step
        The number of steps taken.
    inner_state
        The state of the base kernel. In the moving frame its position is the base chain Z.
    feature
        The score, or the features, seen last.
    feedback
        The feature of the draw minus the feature of the base chain, at the last evaluation; it
        stays 0 unless `feedback_every` is greater than 1.
    is_inside
        In the moving frame, whether the last move that was checked was acceptable.
    strength_state
        The state of the strength's schedule.
    """

    position: Position
    theta: Feature
    alpha: Float[Array, ""]
    step: Int[Array, ""]
    inner_state: KernelState
    feature: Feature
    feedback: Feature
    is_inside: Bool[Array, ""]
    strength_state: KernelState

    @property
    def logdensity(self) -> Float[Array, ""]:
        """The log density that the base kernel cached, at its own position."""
        return self.inner_state.logdensity

    @property
    def logdensity_grad(self) -> Score:
        """The gradient that the base kernel cached, as BlackJAX's adaptations expect."""
        return self.inner_state.logdensity_grad


class RepelInfo(NamedTuple):
    """What a repelled step did.

    inner_info
        The report of the base kernel.
    exponent
        The exponent scale `alpha |(A theta)·s(X)|`, with features in place of the score along a
        field. Repellence is mild while it is below 1.
    gradients
        The number of scores that the step evaluated; -1 if the kernel evaluates them in a loop
        and does not report `num_integration_steps`. On discrete spaces, the number of log density
        evaluations, where a gradient or a set of supplied `differences` counts as one.
    hvps
        How many of these were Hessian-vector products, each of which costs another gradient.
    is_finite
        False if the step met a NaN or an infinity: a proposal without a finite density or whose
        acceptance probability underflows to 0 (most kernels do not distinguish the two), a move
        that was not made (see `frame`), or a score that was kept out of the history.
    is_hot
        True if a watched strength lowered alpha at this step.
    is_stable
        False if the exponent scale exceeds 10 + d, with d the number of features: the loop of
        history and kernel has blown up.
    gain
        The weight with which the step entered the history; 0 if it did not.
    """

    inner_info: KernelInfo
    exponent: Float[Array, ""]
    gradients: Int[Array, ""]
    hvps: Int[Array, ""]
    is_finite: Bool[Array, ""]
    is_hot: Bool[Array, ""]
    is_stable: Bool[Array, ""]
    gain: Float[Array, ""]

    @property
    def acceptance_rate(self) -> Float[Array, ""]:
        """The acceptance probability that the base kernel reports, as BlackJAX's tools expect."""
        return self.inner_info.acceptance_rate
