"""Completion of names by the shell, from a daemon that answers at once; silent otherwise.

Typer offers those that begin with what is typed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import typer

from iriai.cli.framework.table import count_text, date_text
from iriai.model.job import Condition

if TYPE_CHECKING:
    from iriai.client.client import Client
    from iriai.wire.machines import QueueRow
    from iriai.wire.requests import JobRow
    from iriai.wire.reservations import ReservationRow

_Row = TypeVar("_Row")

JOBS_MAX = 200
"""Most candidates offered: more than anyone reads."""
FINISHED_MAX = 20
"""Finished jobs offered: only the latest are likely candidates."""
ANSWER_WAIT_S = 1.0
"""A user who presses Tab does not want to wait for a daemon in trouble."""
_CONDITIONS = (
    (Condition.OK, "when all of its tasks completed"),
    (Condition.ANY, "when it has ended in any way"),
    (Condition.FAIL, "when it ended in any way but completed"),
)


def complete_job(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return ids of the user's jobs that have not finished, with their names and states."""
    return _jobs(ctx, finished_max=0)


def _jobs(ctx: typer.Context, *, finished_max: int) -> list[tuple[str, str]]:
    from iriai.wire.requests import Jobs

    def ask(client: Client) -> list[JobRow]:
        rows = client.jobs(Jobs(limit=JOBS_MAX))
        if finished_max:
            rows += client.jobs(Jobs(finished=True, limit=finished_max))
        return rows

    return [(row.id, f"{row.name}, {row.cause or row.state}") for row in _ask(ctx, ask)]


def complete_any_job(ctx: typer.Context) -> list[tuple[str, str]]:
    """As `complete_job`, with the jobs that finished last."""
    return _jobs(ctx, finished_max=FINISHED_MAX)


def complete_dependency(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return conditions, then ids of jobs that have not finished; after a comma the next id."""
    word, colon, ids = incomplete.partition(":")
    if not colon:
        return [(f"{each}:", when) for each, when in _CONDITIONS]
    before, comma, _ = ids.rpartition(",")
    stem = f"{word}:{before}{comma}"
    return [(stem + job, what) for job, what in _jobs(ctx, finished_max=0)]


def complete_node(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return machines that run tasks, with their states."""
    rows = _ask(ctx, lambda client: list(client.nodes()), follow=False)
    return [(row.name, row.state) for row in rows]


def complete_pool(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return pools, with how many machines they have."""
    rows = _ask(ctx, lambda client: list(client.pools()), follow=False)
    return [(row.name, count_text(len(row.machines), "machine")) for row in rows if row.name]


def complete_queue(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return the queues that the user may use, with how many tasks wait there."""
    return [
        (str(row.number), f"{count_text(row.waiting, 'task')} waiting")
        for row in _queues(ctx)
        if row.is_usable
    ]


def complete_any_queue(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return all queues, with their states."""
    return [(str(row.number), row.state) for row in _queues(ctx)]


def _queues(ctx: typer.Context) -> list[QueueRow]:
    from iriai.wire.machines import AskQueues

    return _ask(ctx, lambda client: list(client.ask(AskQueues()).rows), follow=False)


def complete_reservation(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return the reservations that are not over and the user may use, with their times."""
    return [(row.id, _times(row)) for row in _reservations(ctx) if row.is_usable]


def complete_any_reservation(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return all reservations that are not over, with their times."""
    return [(row.id, _times(row)) for row in _reservations(ctx)]


def _reservations(ctx: typer.Context) -> list[ReservationRow]:
    from iriai.wire.reservations import AskReservations

    return _ask(ctx, lambda client: list(client.ask(AskReservations()).rows), follow=True)


def _times(row: ReservationRow) -> str:
    return f"{row.state}, {date_text(row.start_wall_s)} to {date_text(row.end_wall_s)}"


def complete_queue_setting() -> list[str]:
    """Return what may be set of a queue."""
    return _settings("queues")


def complete_pool_setting() -> list[str]:
    """Return what may be set of a pool."""
    return _settings("pools")


def complete_gang_setting() -> list[str]:
    """Return what may be set of gangs."""
    return _settings("gang")


def _settings(section: str) -> list[str]:
    from iriai.config.live_settings import setting_words

    return setting_words(section)


def complete_home(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return machines of the cluster where jobs are submitted."""
    from iriai.wire.joining import ShowCluster

    names = _ask(ctx, lambda client: list(client.ask(ShowCluster()).machines), follow=False)
    return [(name, "") for name in names]


def _ask(
    ctx: typer.Context, ask: Callable[[Client], list[_Row]], *, follow: bool = True
) -> list[_Row]:
    """Return the daemon's answer if it comes at once, else nothing."""
    from iriai.client.client import Client

    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, ANSWER_WAIT_S)
    try:
        state = ctx.params.get("state") or ctx.find_root().params.get("state")
        with Client.connect(state, follow=follow) as client:
            return ask(client)
    except Exception:  # noqa: BLE001  # a completion that fails is no completion
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError
