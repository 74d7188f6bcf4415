"""What is checked of attempts with several seats: (g), (j) and (k) of docs/spec/011, section 12."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from iriai.machine.outbox import Turn
from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.ids import AttemptId, TaskId
from iriai.model.ranks import ONE, SeatPlace, SeatPlaces, has_shape
from iriai.model.records import Attempted, AttemptResult, ClaimStored, Decided
from iriai.model.state import EndCause, TaskState
from iriai.model.submission import Layout
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.store_model import StoreModel
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

OUTLIVES_S = 10.0
"""How long a seat may outlive its attempt, beyond its grace."""
CHARGE_TOLERANCE_S = 1e-6


class SeatChecker:
    """Judges seats by what really runs, and by what is durable."""

    def __init__(self, world: World, calm_from_s: float) -> None:
        """From `calm_from_s` on nothing breaks, and each machine can be reached."""
        self._world = world
        self._calm_from_s = calm_from_s
        self._confirmed: dict[AttemptId, None] = {}
        """Seats that some machine has confirmed."""
        self._over_s: dict[AttemptId, float] = {}
        """Since when each seat runs though its attempt is over."""

    def started(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        """Check a seat that has just started."""
        attempt = process.attempt
        store = self._world.machines[attempt.home].store
        spec = store.accepted[attempt.number].spec
        places = _places(store, attempt) or (SeatPlace(machine.plan.name, 1),)
        if spec.shape == ONE and not attempt.rank:
            return
        assert has_shape(places, spec.shape), f"{attempt} has seats {places} for {spec.shape}"
        seats, rank = {}, 0
        for place in places:
            seats[attempt.seat(rank)] = place
            rank += place.ranks
        place = seats[attempt]
        assert place.machine == machine.plan.name, f"{attempt} is to be on {place.machine}"
        claimed = spec.resources.times(place.ranks)
        assert process.spec.resources == claimed, f"{attempt} has {process.spec.resources}"
        if len(places) > 1:
            self._check_whole(store, attempt, seats)

    def _check_whole(
        self, store: StoreModel, attempt: AttemptId, seats: Mapping[AttemptId, SeatPlace]
    ) -> None:
        """Check (g): its home has decided, and all its machines have confirmed."""
        name = attempt.index, attempt.attempt
        changes = [event.change for event in store.events[attempt.number]]
        is_decided = any(type(each) is Decided and name in each.tasks for each in changes)
        assert is_decided, f"{attempt} starts before its home has decided"
        for seat, place in seats.items():
            claim = self._world.machines[place.machine].store.claims.get(seat)
            is_confirmed = seat in self._confirmed
            if claim is not None:
                is_confirmed = claim.phase is not Phase.HELD
            assert is_confirmed, f"{attempt} starts before {seat} is confirmed on {place.machine}"

    def check(
        self,
        machine: SimulatedMachine,
        turn: Turn,
        live: Mapping[TaskId, Mapping[AttemptId, SimulatedMachine]],
    ) -> None:
        """Check all seats that run after a turn of a machine."""
        for record in turn.records:
            if type(record) is ClaimStored and record.claim.phase is not Phase.HELD:
                self._confirmed[record.claim.attempt] = None
        now_s = self._world.now_s
        # A hold ends by the steady clock; the wall clock is for a node that comes back.
        is_set = machine.clock.was_stepped(now_s, HOLD_MAX_S)
        if Part.NODE in machine.plan.parts and not is_set:
            wall_s = machine.clock.at(now_s).wall_s
            for claim in machine.core.node.claims():
                is_held = claim.phase is Phase.HELD and claim.attempt in machine.core.node.running()
                is_late = is_held and claim.held_until_wall_s < wall_s
                assert not is_late, f"{claim.attempt} is held for too long"
        if now_s < self._calm_from_s:
            return
        for seats in live.values():
            for seat, where in seats.items():
                if not self._is_over(seat):
                    self._over_s.pop(seat, None)
                    continue
                over_s = now_s - self._over_s.setdefault(seat, now_s)
                grace_s = where.launcher.running[seat].spec.kill_grace_s
                assert over_s <= OUTLIVES_S + grace_s, f"{seat} runs {over_s:.1f} s too long"

    def _is_over(self, seat: AttemptId) -> bool:
        """Return whether the attempt of a seat that runs is over, as far as its home knows."""
        home = self._world.machines[seat.home]
        if not home.is_up:
            return False
        job = home.core.home.jobs.get(seat.number)
        task = None if job is None else job.tasks.get(seat.index)
        if task is None or task.attempt != seat.attempt or task.state is TaskState.QUEUED:
            return True
        return task.parallel is not None and task.parallel.is_ending


def _places(store: StoreModel, attempt: AttemptId) -> SeatPlaces:
    """Return the seats of an attempt, as its home has stored them."""
    for event in store.events[attempt.number]:
        change = event.change
        if type(change) is Attempted and (attempt.index, attempt.attempt) in change.tasks:
            return change.seats
    return ()


def check_sums(store: StoreModel) -> None:
    """Check that the result of each attempt is made of those of its seats."""
    seats = defaultdict[AttemptId, list[AttemptResult]](list)
    for seat, result in store.seats.items():
        seats[seat.seat(0)].append(result)
    for attempt, results in seats.items():
        whole = store.results.get(attempt)
        assert whole is not None, f"{attempt} has results of seats, and none itself"
        charge_s = sum(each.charge_s for each in results)
        assert abs(whole.charge_s - charge_s) <= CHARGE_TOLERANCE_S, f"{attempt}: {charge_s} s"
        is_first = store.accepted[attempt.number].spec.layout is Layout.FIRST
        if whole.cause is EndCause.COMPLETED and not is_first:
            assert {each.cause for each in results} == {whole.cause}, f"{attempt}: {results}"
