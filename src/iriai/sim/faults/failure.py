"""The failure of a simulated world, as one line of text."""

from __future__ import annotations

from collections.abc import Callable


def failure_of(play: Callable[[], None]) -> str | None:
    """Play a world to its end; return what fails, or None."""
    try:
        play()
    except AssertionError as error:
        return str(error) or "an assertion without a word"
    except Exception as error:  # noqa: BLE001 - whatever a core raises is a fault of it
        return f"{type(error).__name__}: {error}"
    return None
