"""What fails after sampling must not take the draws with it."""

import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def attempt(what: str, action: Callable[[], T], otherwise: T, then: str, told: list[str]) -> T:
    """What the action returns, or `otherwise` if it fails; `told` is then given a warning.

    >>> told = []
    >>> attempt("counting", lambda: 1 // 0, -1, "there is no count", told)
    -1
    >>> told
    ['counting failed, and there is no count: ZeroDivisionError: ... (...). Please report it']
    """
    try:
        return action()
    except Exception as error:  # of the user's model or of ours: draws are worth more than either
        last = traceback.extract_tb(error.__traceback__)[-1]
        told.append(
            f"{what} failed, and {then}: {type(error).__name__}: {error} ({last.filename}, line "
            f"{last.lineno}). Please report it"
        )
        return otherwise
