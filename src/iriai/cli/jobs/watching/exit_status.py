"""Ends of jobs and tasks, as exit codes and in words."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.state import EndCause
from iriai.wire.requests import Outcome

EXIT_OWN_ERROR = 1
EXIT_TIME_LIMIT = 124
EXIT_LIMIT_OR_LOST = 125
EXIT_CANCELLED = 130
SIGNAL_BASE = 128

_EXITS = {
    EndCause.COMPLETED: 0,
    EndCause.TIME_LIMIT: EXIT_TIME_LIMIT,
    EndCause.CPU_LIMIT: EXIT_LIMIT_OR_LOST,
    EndCause.MEMORY_LIMIT: EXIT_LIMIT_OR_LOST,
    EndCause.DISK_LIMIT: EXIT_LIMIT_OR_LOST,
    EndCause.LOST: EXIT_LIMIT_OR_LOST,
    EndCause.CANCELLED: EXIT_CANCELLED,
}


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of `run` and `wait` for this end of a job or task."""
    if outcome.cause != EndCause.FAILED:
        return _EXITS.get(EndCause(outcome.cause), EXIT_OWN_ERROR)
    if outcome.signal is not None:
        return SIGNAL_BASE + outcome.signal
    return outcome.exit_code or EXIT_OWN_ERROR


def exit_code_of_all(outcomes: Iterable[Outcome]) -> int:
    """Return the exit code of the first that did not succeed; 0 if all did."""
    return next((code for code in map(exit_code, outcomes) if code), 0)


def outcome_text(outcome: Outcome) -> str:
    """Return how one job or task ended, in a line."""
    message = f" ({outcome.message})" if outcome.message else ""
    return f"{outcome.id}: {_ending_text(outcome)}{message}"


def _ending_text(outcome: Outcome) -> str:
    """Return the end in words: `failed with exit code 3`, `killed by SIGKILL`, `completed`."""
    if outcome.cause == EndCause.FAILED and outcome.signal is not None:
        return f"killed by {signal_name(outcome.signal)}"
    if outcome.cause == EndCause.FAILED and outcome.exit_code is not None:
        return f"failed with exit code {outcome.exit_code}"
    return outcome.cause


def signal_name(number: int) -> str:
    """Return `SIGKILL`; the number if the signal has no name."""
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
