"""History, strength and surrogate around any base kernel (alg:srmc)."""

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any

from blackjax import GenerateSamplingAPI
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_option, is_concrete, outputs_of
from srmc.repel.field import Field
from srmc.repel.frames import Frame, frame_of
from srmc.repel.history import make_history
from srmc.repel.kernel import kernel_name, kernel_of
from srmc.repel.loop import make_loop
from srmc.repel.state import RepelState
from srmc.repel.strength import Strength, as_strength, watched
from srmc.repel.surrogate import Surrogate, along, shift
from srmc.repel.target import Target, as_position, check_start, from_score
from srmc.types import Array, Feature, LogDensity, Position, PRNGKey, ScoreFn

DEFAULT_STRENGTH = watched(1.0)


class Repellable(abc.ABC):
    """An algorithm that repels itself, such as a kernel on a discrete space."""

    @abc.abstractmethod
    def repel(self, *args: Any, **options: Any) -> SamplingAlgorithm | None:
        """The repelled sampler; None if the arguments are those of a continuous kernel."""


class Repelled(SamplingAlgorithm):  # type: ignore[misc]  # BlackJAX has no types
    """A `SamplingAlgorithm` that can be repelled once more."""

    rescore: Callable[[RepelState], RepelState]


def repel(
    algorithm: Callable[..., SamplingAlgorithm],
    logdensity_fn: LogDensity | None = None,
    *args: Any,
    score_fn: ScoreFn | None = None,
    alpha: float | Array | Strength = DEFAULT_STRENGTH,
    gain: Callable[[Array], Array] | None = None,
    surrogate: Surrogate | Field | None = None,
    frame: str | None = None,
    history_every: int | Array | None = None,
    history_average: bool = False,
    history_axis: str | tuple[str, ...] | None = None,
    history_start: str = "zero",
    feedback_every: int = 1,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Repel a kernel: run it on a target bent away from the scores seen so far (alg:srmc).

    The defaults are stable for any kernel: a shift in the moving frame, with a strength that a
    guard lowers when the loop heats up. The paper's algorithm is `**srmc.paper_settings()`.

    Parameters
    ----------
    algorithm
        A BlackJAX algorithm, such as `blackjax.nuts`, or any function of a log density (the full
        one, not a likelihood) that returns a `blackjax.SamplingAlgorithm`. Its state must be a
        NamedTuple with `position`; what it caches about the target must be called `logdensity`
        and `logdensity_grad`. A kernel on a discrete space, such as `srmc.kernels.plain.gwg`,
        also takes `space`, `feature`, `differences` and `preconditioner`; see `srmc.gwg`.
    logdensity_fn
        The log density of the target, up to a constant.
    score_fn
        Its score in place of it, for a kernel that uses no values, such as
        `srmc.kernels.plain.ula`; an algorithm of your own says so by an attribute
        `adjusted = False`. The log density that the state holds is then 0, and the moving frame has
        none to check its moves by.
    *args
        Positional arguments of `algorithm` after the log density.
    **kwargs
        Keyword arguments of `algorithm`.
    alpha
        The strength of repellence: a number, which stays fixed, or a schedule. With 0 the base
        kernel runs alone; theta then averages the gradients that it caches, and stays 0 if there
        are none.
    gain
        The weight of the n-th score in the history; `srmc.gain()` by default.
    surrogate
        `srmc.shift()`, the default; `srmc.tilt()`, the paper's; or a field to move along, such as
        `affine()`, from `srmc.repel import affine`.
    frame
        "moving", the default for a shift and the only frame of a field: draws travel with the
        target, and the base chain does not depend on alpha. A move that costs more than
        10 + d in log density is not made and counts as not finite; moves are checked only on
        steps that update the history. "fixed", the only frame of a tilt: the chain stays where it
        is when the target moves, as in the paper, which speeds up the mixing of kernels with
        short steps (`srmc.mh`, `ula`, `uld` and `mala` choose it) and can trap those that travel.
    history_every
        The number of steps per update of the history, and so of the surrogate: 1 by default, and
        on a discrete space as many as keep its features cheap (see `srmc.flip_mh`).
    history_average
        Whether the history averages the score over both ends of a transition, which keeps
        antithetic kernels stable, or takes its end alone, as in the paper.
    history_axis
        The name of a `vmap` axis whose chains share one history.
    history_start
        "zero", or "score": theta_0 = s(X_0), with which theta is the plain average of all scores,
        that of the start included, if rho = 1. A `theta` that is given to `init` comes first.
    feedback_every
        In the moving frame, the number of steps per evaluation of the draw's own score. In
        between, the history takes the score that the kernel cached at the base chain plus the
        last difference of the two, which varies little: most of the effect at a fraction of the
        cost.

    Returns
    -------
    A `SamplingAlgorithm` with `init(position, rng_key=None, theta=None)` and
    `step(rng_key, state)`; see `RepelState` and `RepelInfo`.
    """
    history: dict[str, Any] = {
        "alpha": alpha,
        "gain": gain,
        "history_every": history_every,
        "history_average": history_average,
        "history_axis": history_axis,
        "history_start": history_start,
    }
    logdensity_fn = _as_density(algorithm, logdensity_fn, score_fn)
    if isinstance(algorithm, Repellable):
        bent = {"surrogate": surrogate, "frame": frame, "feedback_every": feedback_every}
        given = {k: v for k, v in bent.items() if v not in (None, 1)}
        found = algorithm.repel(logdensity_fn, *args, history=history, **given, **kwargs)
        if found is not None:
            return found
    chosen = as_surrogate(surrogate)
    frame = choose_frame(frame, chosen)
    loop = make_loop(chosen.precondition, **history)
    check_count("feedback_every", feedback_every)
    if feedback_every > 1 and not (frame == "moving" and loop.history.at_each_step):
        raise ValueError(
            f"feedback_every={feedback_every} needs frame='moving' and history_every=1, "
            f"got {frame!r} and {loop.history.every}"
        )
    kernel, target = kernel_of(algorithm, args, kwargs), Target(logdensity_fn)
    alone = is_plain(alpha)
    parts = frame_of(frame, Frame(target, kernel, chosen, loop, feedback_every), alone)

    def init(
        position: Position, rng_key: PRNGKey | None = None, theta: Feature | None = None
    ) -> RepelState:
        position = as_position(position)
        if score_fn is not None:
            outputs_of("score_fn", score_fn, position)
        check_start(logdensity_fn, position, with_score=not alone)
        return parts.start(position, rng_key, theta, alone)

    out = Repelled(init, parts.step)
    out.rescore = parts.rescore
    return out


def is_plain(alpha: float | Array | Strength) -> bool:
    """Whether the strength is a constant 0, so that the base kernel runs alone."""
    return not isinstance(alpha, Strength) and is_concrete(alpha) and float(alpha) == 0.0


def repelled(algorithm: GenerateSamplingAPI, **options: Any) -> GenerateSamplingAPI:
    """A repelled kernel in BlackJAX's own form, for `window_adaptation`, SMC and the like.

    `options` are keywords of `repel`. What comes back has `init(position, logdensity_fn)` and
    `build_kernel()`, and is called like `algorithm`.
    """
    if not (hasattr(algorithm, "init") and hasattr(algorithm, "build_kernel")):
        raise TypeError(f"algorithm must be BlackJAX's, such as blackjax.nuts, got {algorithm!r}")
    check_options(options)

    def build(logdensity_fn: LogDensity, *args: Any, **kwargs: Any) -> SamplingAlgorithm:
        kernel = algorithm.build_kernel()
        known = inspect.signature(algorithm.init).parameters
        names = [name for name in ("rng_key", "random_generator_arg") if name in known]

        def init(position: Position, rng_key: PRNGKey | None = None) -> Any:
            more = dict.fromkeys(names, rng_key)
            return algorithm.init(position, logdensity_fn, **more)

        return SamplingAlgorithm(
            init, lambda key, state: kernel(key, state, logdensity_fn, *args, **kwargs)
        )

    def init(
        position: Position, logdensity_fn: LogDensity, rng_key: PRNGKey | None = None
    ) -> RepelState:
        return repel(build, logdensity_fn, **options).init(position, rng_key)

    def build_kernel() -> Callable[..., tuple[RepelState, Any]]:
        def kernel(
            rng_key: PRNGKey,
            state: RepelState,
            logdensity_fn: LogDensity,
            *args: Any,
            **kwargs: Any,
        ) -> tuple[RepelState, Any]:
            step = repel(build, logdensity_fn, *args, **options, **kwargs).step
            new_state, info = step(rng_key, state)
            return new_state, info

        return kernel

    return GenerateSamplingAPI(functools.partial(repel, algorithm, **options), init, build_kernel)


def check_options(options: dict[str, Any], more: tuple[str, ...] = ()) -> None:
    """Raise for names that `repel` does not have, and for bad values of `alpha` and `history_*`."""
    known = inspect.signature(repel).parameters
    unknown = [name for name in options if name not in (*known, *more)]
    if unknown:
        found = ", ".join(map(str, unknown))
        raise ValueError(f"repellence must be keywords of repel, got {found}")
    names = inspect.signature(make_history).parameters
    make_history(**{n: options.get(n, known[n].default) for n in names})
    as_strength(options.get("alpha", DEFAULT_STRENGTH))


def _as_density(
    algorithm: Callable[..., SamplingAlgorithm],
    logdensity_fn: LogDensity | None,
    score_fn: ScoreFn | None,
) -> LogDensity:
    """The log density, or a stand-in for it if only the score is given."""
    if (logdensity_fn is None) == (score_fn is None):
        found = "neither" if score_fn is None else "both"
        raise TypeError(f"one of logdensity_fn and score_fn must be given, got {found}")
    if score_fn is None:
        assert logdensity_fn is not None
        return logdensity_fn
    while isinstance(algorithm, functools.partial):
        algorithm = algorithm.func
    if getattr(inspect.unwrap(algorithm), "adjusted", True):
        raise ValueError(
            "score_fn needs a kernel without a Metropolis correction, such as "
            f"srmc.kernels.plain.ula, got {kernel_name(algorithm)}; give it logdensity_fn"
        )
    return from_score(score_fn)


def as_surrogate(surrogate: Surrogate | Field | None) -> Surrogate:
    """The surrogate of this keyword: by default a shift; for a field, a move along it."""
    if surrogate is None:
        return shift()
    if isinstance(surrogate, Field):
        return along(surrogate)
    if not isinstance(surrogate, Surrogate):
        raise TypeError(
            f"surrogate must be srmc.tilt(), srmc.shift() or a field, got {surrogate!r}"
        )
    return surrogate


def choose_frame(frame: str | None, surrogate: Surrogate) -> str:
    """The frame of this keyword; raise if the surrogate does not have it."""
    if frame is None:
        return "moving" if surrogate.carries else "fixed"
    check_option("frame", frame, ("fixed", "moving"))
    if frame == "fixed" and not surrogate.bends:
        raise ValueError("frame='fixed' needs srmc.tilt() or srmc.shift(); a field moves the state")
    if frame == "moving" and not surrogate.carries:
        raise ValueError("frame='moving' needs surrogate=srmc.shift(); the tilt has no such frame")
    return frame
