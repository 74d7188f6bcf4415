"""Small mistakes about queues; each is found from a seed in which jobs are in several."""

from __future__ import annotations

from iriai.broker.queue.ageing import Ageing
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.scheduling.task_starts import TaskStarts
from iriai.model.bounds import QUEUE_MAX
from tests.mutants.mutants import Patch, around, instead, nothing


def _of_all_levels(whole, drawing):
    was_layered, drawing._is_layered = drawing._is_layered, False
    found = whole(drawing)
    drawing._is_layered, drawing._level = was_layered, QUEUE_MAX
    return found


def _twice_as_old(whole, ageing, queue, waited_s):
    return whole(ageing, queue, 2.0 * waited_s)


QUEUES: dict[str, Patch] = {
    "accounts are drawn whatever queues their tasks are in": around(
        SchedulingPass, "_candidates", _of_all_levels
    ),
    "a head of a lower queue keeps its place from higher ones": instead(
        TaskStarts, "set_aside", lambda starts: starts._state.queues.first_level
    ),
    "all tasks count in the first queue": instead(Ageing, "level", lambda *_: 0),
    "nothing rises to a higher queue by its age": instead(Ageing, "note", nothing),
    "a job rises in half of its time": around(Ageing, "level", _twice_as_old),
}
