"""States of a task, and causes of ends, as tables."""

from __future__ import annotations

from enum import StrEnum


class TaskState(StrEnum):
    """The state of a task between submission and its end."""

    HELD = "held"
    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    SUSPENDED = "suspended"
    MIGRATING = "migrating"
    FINISHED = "finished"


class EndCause(StrEnum):
    """The cause of an attempt's end. `EVICTED` and `REFUSED` end an attempt, never a task."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time-limit"
    CPU_LIMIT = "cpu-limit"
    MEMORY_LIMIT = "memory-limit"
    DISK_LIMIT = "disk-limit"
    LOST = "lost"
    EVICTED = "evicted"
    REFUSED = "refused"


START_TOLD_WITHIN_S = 0.02
"""How long a launcher keeps a start to itself. A task that ends within this is told once, by its
end: one message, turn and commit instead of two."""
START_TOLD_IN_CROWD_S = 0.1
"""The same while many tasks run, where `true` takes 60 ms."""

ATTEMPT_ONLY = (EndCause.EVICTED, EndCause.REFUSED)
"""Causes after which the task is queued again, whatever its restarts."""


class TaskEvent(StrEnum):
    """The events of a task."""

    HOLD = "hold"
    RELEASE = "release"
    ATTEMPT = "attempt"
    START = "start"
    SUSPEND = "suspend"
    RESUME = "resume"
    MIGRATE = "migrate"
    REQUEUE = "requeue"
    FINISH = "finish"


_S = TaskState
_E = TaskEvent

TRANSITIONS: dict[tuple[TaskState, TaskEvent], TaskState] = {
    (_S.QUEUED, _E.HOLD): _S.HELD,
    (_S.HELD, _E.RELEASE): _S.QUEUED,
    (_S.HELD, _E.FINISH): _S.FINISHED,
    (_S.QUEUED, _E.ATTEMPT): _S.CLAIMED,
    (_S.QUEUED, _E.FINISH): _S.FINISHED,
    (_S.CLAIMED, _E.START): _S.RUNNING,
    (_S.CLAIMED, _E.REQUEUE): _S.QUEUED,
    (_S.CLAIMED, _E.FINISH): _S.FINISHED,
    (_S.RUNNING, _E.SUSPEND): _S.SUSPENDED,
    (_S.RUNNING, _E.MIGRATE): _S.MIGRATING,
    (_S.RUNNING, _E.REQUEUE): _S.QUEUED,
    (_S.RUNNING, _E.FINISH): _S.FINISHED,
    (_S.SUSPENDED, _E.RESUME): _S.RUNNING,
    (_S.SUSPENDED, _E.MIGRATE): _S.MIGRATING,
    (_S.SUSPENDED, _E.REQUEUE): _S.QUEUED,
    (_S.SUSPENDED, _E.FINISH): _S.FINISHED,
    (_S.MIGRATING, _E.START): _S.RUNNING,
    (_S.MIGRATING, _E.REQUEUE): _S.QUEUED,
    (_S.MIGRATING, _E.FINISH): _S.FINISHED,
}
"""(state, event) -> next state. A pair that is not in the table is illegal."""


class IllegalTransition(AssertionError):
    """An event that is illegal in the state: an internal error. Nothing was changed."""


def next_state(state: TaskState, event: TaskEvent) -> TaskState:
    """Return the state after `event`; raise `IllegalTransition` if the table has none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a task that is {state} cannot {event}") from None
