"""What a seat of a parallel attempt has beyond a task of one rank."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.environment.batch_variables import add_seat_variables
from iriai.launcher.environment.processors import Processors
from iriai.launcher.environment.rank_variables import seat_variables, write_host_file
from iriai.launcher.spawn.spawn import Prepared, piped
from iriai.launcher.tasks.rank_processes import RankProcesses, RankStage
from iriai.launcher.tasks.task import RunningTask, spec_of_seat
from iriai.model.job import JobSpec
from iriai.model.submission import Interaction, Layout
from iriai.system.passwd_cache import Login

WAITS = "w="
"""The option of the helper that becomes no program, and waits for its end."""


def make_seat(task: RunningTask, processors: Processors) -> None:
    """Give `task`, which has no process yet, what its ranks have in common. Raises OSError."""
    order, prepared = task.order, task.prepared
    spec = prepared.spec
    shared = seat_variables(order, spec.layout, task.scratch.path)
    if spec.batch is not None:
        add_seat_variables(shared, spec.batch, order, spec.resources.cpus)
    write_host_file(task.scratch.fd, order, prepared.login.uid)
    taken = processors.take(order, spec)
    task.prepared = prepared._replace(of_seat=shared, processors=taken)
    task.spec = spec_of_seat(spec, order.ranks)
    stages = max(1, len(spec.pipes))
    if spec.layout is Layout.RANKS and order.ranks * stages > 1:
        first, keep_going = order.attempt.rank, spec.keep_going
        task.ranks = RankProcesses(first, order.ranks, stages, keep_going=keep_going)


def only_waits(prepared: Prepared, order: StartOrder) -> bool:
    """Return whether the seat runs nothing of its own: it is there for job steps."""
    return prepared.spec.layout is Layout.FIRST and order.attempt.rank > 0


def of_stage(prepared: Prepared, order: StartOrder, place: RankStage) -> Prepared:
    """Return what becomes a stage of a parallel pipe; without one, `prepared`.

    Standard error of all stages goes where that of the rank goes.
    """
    spec = prepared.spec
    if not spec.pipes:
        return prepared
    if place.stage + 1 < len(spec.pipes):
        prepared = piped(prepared, order, place.rank)
    return prepared._replace(command=spec.pipes[place.stage])


OptionsOf = Callable[[JobSpec, Login], tuple[str, ...]]


def waiting(prepared: Prepared, options: OptionsOf) -> Prepared:
    """Return what becomes a process that waits until it is ended."""
    spec = msgspec.structs.replace(
        prepared.spec, interaction=Interaction.BATCH, takes_input=False, output="", error=""
    )
    return prepared._replace(
        spec=spec, options=(*options(spec, prepared.login), WAITS), command=("seat",)
    )
