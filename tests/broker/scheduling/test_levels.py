"""Queues at random: whatever starts, nothing of a higher level could have started in its place."""

from __future__ import annotations

import pytest

from iriai.broker.queue.entries import QueuedJob
from iriai.broker.scheduling.task_starts import TaskStarts
from iriai.config.sections import OrderSection
from tests.broker.waiting_ranks import WaitingRanks

AGE_S = 15.0
SEEDS = 25


class LayeredRanks(WaitingRanks):
    """Tasks in three queues; a promise is never moved later but for a higher level's sake."""

    now_s = 0.0

    def queue_of_next(self) -> int:
        return self.rng.choice((0, 0, 1, 2))

    def could_start(self, entry: QueuedJob) -> bool:
        state, kind = self.state, entry.kind
        if not kind.is_possible:
            return False
        if self.cap_cpus is not None:  # what is over it holds up the rest of its account
            is_first = state.queues.accounts[entry.want.account].queue.first is entry.line
            if not is_first or not state.running_cap(entry).allowed:
                return False
        if kind.is_wide:  # beside parallel heads not every way to lie on machines is tried
            is_alone = not state.heads.by_job
            return is_alone and state.placement.parallel.seats(kind, self.now_s) is not None
        views = state.index.views.values()
        return any(state.placement.admits(view, kind) for view in views)

    def check_start(self, entry: QueuedJob) -> None:
        """Called before each start."""
        for other in self.state.queues.entries.values():
            is_higher = other.precedence.level < entry.precedence.level
            assert not (is_higher and self.could_start(other)), (
                f"{entry.want.job} of level {entry.precedence.level} starts before "
                f"{other.want.job} of level {other.precedence.level}"
            )

    def _pass(self, now_s: float) -> None:
        self.now_s = now_s
        queues = self.state.queues
        queues.age(now_s)
        waiting = {job: queues.level_of(job) for job in queues.entries}
        for job in list(self.promised_s):
            if any(level < waiting.get(job, 0) for level in waiting.values()):
                del self.promised_s[job]  # that may take its place
        super()._pass(now_s)
        if self.planning is None:
            assert not self.state.heads.aside
            for entry in queues.entries.values():
                assert not self.could_start(entry), f"{entry.want.job} could start"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch):
    """Look at each start of a pass."""
    watched: list[LayeredRanks] = []
    start = TaskStarts.start

    def look(starts: TaskStarts, entry: QueuedJob, seats, row=0) -> None:
        watched[-1].check_start(entry)
        start(starts, entry, seats, row)

    monkeypatch.setattr(TaskStarts, "start", look)
    return watched


@pytest.mark.parametrize("order", ["lottery", "stride", "fifo"])
@pytest.mark.parametrize("backfill", ["easy", "easy-sjbf", "none"])
@pytest.mark.parametrize("cap_cpus", [None, 9])
@pytest.mark.parametrize("age_s", [AGE_S, None])
def test_higher_levels_start_first(watched, order, backfill, cap_cpus, age_s):
    section = OrderSection(name=order, backfill=backfill, running_cap_cpus=cap_cpus, age_s=age_s)
    for seed in range(SEEDS):
        watched.append(LayeredRanks(seed, section, is_alike=seed % 3 == 0))
        watched[-1].run()


def test_each_task_reaches_the_first_level_in_time():
    for seed in range(SEEDS):
        ranks = LayeredRanks(seed, OrderSection(age_s=AGE_S))
        ranks.run()
        assert ranks.started_s.keys() == ranks.wants.keys()
        queues = ranks.state.queues
        assert (queues.lower, queues.ageing.risen(1e9)) == (0, [])
