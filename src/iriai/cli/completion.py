"""Names that the shell completes, from the daemon where it answers at once; silent elsewhere."""

from __future__ import annotations

from iriai.model.state import TaskState

JOBS_COMPLETED_MAX = 200
"""More candidates than anybody reads."""


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Ids of the user's jobs that have not finished, with what they are."""
    return _jobs(incomplete, finished=False)


def complete_any_job(incomplete: str) -> list[tuple[str, str]]:
    """As `complete_job`, with those that finished last."""
    return _jobs(incomplete, finished=False) + _jobs(incomplete, finished=True)


def complete_state(incomplete: str) -> list[str]:
    """States of a job that has not finished."""
    return [
        state
        for state in TaskState
        if state is not TaskState.FINISHED and state.startswith(incomplete)
    ]


def _jobs(incomplete: str, *, finished: bool) -> list[tuple[str, str]]:
    from iriai.client.answers import Jobs
    from iriai.client.client import Client

    try:
        with Client.connect() as client:
            rows = client.jobs(Jobs(finished=finished, limit=JOBS_COMPLETED_MAX))
    except Exception:  # noqa: BLE001  # a completion that fails is no completion
        return []
    return [
        (row.id, f"{row.name}, {row.cause or row.state}")
        for row in rows
        if row.id.startswith(incomplete)
    ]
