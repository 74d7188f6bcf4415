"""The checker of queues: what starts, and what waits meanwhile (docs/spec/013, section 11)."""

from __future__ import annotations

from math import floor

from iriai.broker.core import Broker
from iriai.broker.machines.machine_view import MachineView, Matched
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.reserved_heads import kept_for
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.sim.world.machine_model import SimulatedMachine

RISES_WITHIN_S = 2.0
"""Requests are repeated with times waited that differ by delays of messages."""


class QueueChecker:
    """Checks the broker of each machine after its turns."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Broker, dict[JobId, int], dict[int, Matched]]] = {}
        """By machine: its broker, the level of each job that waited after its last turn, and the
        matches that were pending then."""

    def check(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check that no task was matched in the place of one of a higher level."""
        broker, name = machine.core.own_broker, machine.plan.name
        if broker is None:
            self._known.pop(name, None)
            return
        known, waited, pending = self._known.get(name, (None, {}, {}))
        queues = broker.state.queues
        levels = {job: entry.precedence.level for job, entry in queues.entries.items()}
        views = broker.state.machines.values()
        matches = {id(each): each for view in views for each in view.matched.values()}
        self._known[name] = (broker, levels, matches)
        if known is not broker:
            return
        for entry in queues.entries.values():
            self._check_level(entry, machine.plan.configuration.order.age_s, now)
        for view in views:
            new = [each for each in view.matched.values() if id(each) not in pending]
            self._check_view(broker, view, new, waited)

    def _check_level(self, entry: QueuedJob, age_s: float | None, now: Instant) -> None:
        """Check that a task counts in the queue that its age gives it."""
        queue, level = entry.want.queue, entry.precedence.level
        waited_s = now.steady_s - entry.precedence.queued_at_s
        rises = 0.0 if age_s is None else waited_s / age_s
        tolerance = 0.0 if age_s is None else RISES_WITHIN_S / age_s
        earliest = max(0, queue - floor(rises + tolerance))
        latest = max(0, queue - floor(max(0.0, rises - tolerance)))
        assert earliest <= level <= latest, (
            f"{entry.want.job} of queue {queue} counts in {level} after {waited_s:.3f} s"
        )

    def _check_view(
        self,
        broker: Broker,
        view: MachineView,
        new: list[Matched],
        waited: dict[JobId, int],
    ) -> None:
        starting = broker.state.settings.configuration.starting_queues
        for matched in new:
            want = matched.entry.want
            assert want.queue in starting, f"{want.job} is matched, and queue {want.queue} stopped"
            if broker.has_own_policy:
                continue
            level = matched.entry.precedence.level
            higher = [job for job, before in waited.items() if before < level]
            for job in higher if not matched.is_ahead else ():
                entry = broker.state.queues.entries.get(job)
                if entry is None or entry.precedence.level >= level:
                    continue
                given_back = [m.entry.want for m in new if m.entry.want.job == job]
                if any(want.stamp < entry.want.stamp for want in given_back):
                    continue  # its home gave such a match back at once, and asks anew
                lower = [m for m in new if m.entry.precedence.level > entry.precedence.level]
                assert not self._could_have(broker, view, entry, lower), (
                    f"{matched.entry.want.job} of level {level} was matched on {view.name}, and "
                    f"{job} of level {entry.precedence.level} waits"
                )

    def _could_have(
        self, broker: Broker, view: MachineView, entry: QueuedJob, lower: list[Matched]
    ) -> bool:
        """Return whether a task could have started there in the place of `lower` matches."""
        state, kind = broker.state, entry.kind
        heads, level = state.heads, entry.precedence.level
        if view.calendar.bookings or entry.want.reservation is not None:
            return False  # it may not fit beside them, or has to wait for one
        if kind.is_wide or kind.key.exclusive or not kind.is_possible or state.cap_cpus is not None:
            return False
        kept = [head.job for head in heads.by_job.values() if head.is_in(view.pool)]
        if view.name in heads.by_machine:
            kept.append(heads.by_machine[view.name].job)
        if any(state.queues.level_of(job) <= level for job in kept):
            return False
        room: Resources = view.calendar.free
        for key, matched in view.matched.items():
            task = state.preemptible.by_key.get(key)
            takes_turns = task is not None and task.is_gang  # then others have its cpus, too
            if any(matched is each for each in lower) and not (matched.is_ahead or takes_turns):
                room = room.plus(view.calendar.held_by(key))
        is_admitted = view.is_available and kind.may_run_on(view.name)
        if state.slots.most(view.pool) is not None:  # whether its pool was full before
            return False
        return is_admitted and kept_for(kind, view).fits_in(room)
