"""Small mistakes about queues; each is found from a seed in which jobs are in several."""

from __future__ import annotations

from iriai.broker.queue.ageing import Ageing
from iriai.broker.scheduling.task_starts import TaskStarts
from iriai.broker.state.contention import ContenderState
from tests.mutants.mutants import Patch, instead

QUEUES: dict[str, Patch] = {
    "accounts are drawn whatever queues their tasks are in": instead(
        ContenderState, "level", property(lambda _: 0)
    ),
    "a head of a lower queue keeps its place from higher ones": instead(
        TaskStarts, "set_aside", lambda starts: starts._state.queues.first_level
    ),
    "nothing rises to a higher queue by its age": instead(Ageing, "risen", lambda *_: []),
    "a job rises before its time": instead(
        Ageing, "level", lambda ageing, queue, _: max(0, queue - 1)
    ),
}
