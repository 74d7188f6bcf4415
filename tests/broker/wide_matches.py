"""A broker, machines of four cpus, tasks of several ranks: stories say what becomes of matches."""

from __future__ import annotations

from iriai.broker.machines.machine_view import MachineView, Matched
from iriai.model.ids import AttemptId
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LinkDown, Part, Wake
from iriai.protocol.messages.scheduling import Decline, Match, Running, SeatOffer, Want
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import attempt, instant

CPUS = 4


class WideMatches:
    """Each machine mints a capability for each free cpu, as a node does."""

    def __init__(self, machines: int = 2, **options) -> None:
        self.broker = LoneBroker(**options)
        self._incarnations: dict[str, int] = {}
        names = [f"m{number}" for number in range(machines)]
        self.broker.tell(*[self.idle(name, CPUS, whole=True) for name in names])

    @property
    def state(self):
        return self.broker.broker.state

    def view(self, name: str) -> MachineView:
        return self.state.machines[name]

    def free(self) -> list[int]:
        """The free cpus of each machine, as the broker knows."""
        return [view.calendar.free.cpus for view in self.state.machines.values()]

    def pending(self) -> list[Matched]:
        """The matches of which the broker does not know all."""
        views = self.state.machines.values()
        found = [matched for view in views for matched in view.matched.values()]
        return list({id(each): each for each in found}.values())

    def waiting(self) -> int:
        return self.state.queues.ready

    def idle(self, name: str, free: int = 0, *, whole: bool = False, **fields):
        incarnation = self._incarnations.setdefault(name, 1)
        its = {"machine": name, "capacity": Resources(CPUS), "incarnation": incarnation}
        fields = its | fields
        return self.broker.idle(free, whole=whole, **fields)

    def tell(self, *messages) -> list[Match]:
        return matches(self.broker.tell(*messages))

    def wake(self) -> list[Match]:
        return self.tell(Wake(Part.BROKER))

    def restart(self, name: str) -> list[Match]:
        """A machine of that name begins, and nothing runs there."""
        self._incarnations[name] = self._incarnations.get(name, 0) + 1
        return self.tell(self.idle(name, CPUS, whole=True))

    def forget(self, name: str) -> None:
        """Somebody says that a machine which is away is gone for good."""
        self.tell(LinkDown(name))
        self.broker.broker.forget_machine(name, instant(self.broker.now_s))
        self.broker.broker.check()

    def submit(self, ranks: int, number: int = 1, **fields) -> list[Match]:
        return self.tell(wide(ranks, number, **fields))

    # --- what a home and its nodes do with a match -----------------------------------------------

    def granted(self, match: Match, seat: SeatOffer, number: int = 1, **fields) -> list[Match]:
        """The machine has a claim for the seat, of the task's attempt with that number."""
        running = seat_of(match, seat, number)
        spent = (seat.capability,)
        return self.tell(self.idle(seat.machine, began=(running,), spent=spent, **fields))

    def refused(self, seat: SeatOffer, **fields) -> list[Match]:
        """It has none, and the capability is used up; another takes its place."""
        return self.tell(self.idle(seat.machine, 1, spent=(seat.capability,), **fields))

    def ended(self, match: Match, seat: SeatOffer, number: int = 1, **fields) -> list[Match]:
        over = seat_of(match, seat, number).attempt
        return self.tell(self.idle(seat.machine, 1, ended=(over,), **fields))

    def begin(self, match: Match, number: int = 1) -> None:
        for seat in match.seats:
            self.granted(match, seat, number)

    def declined(self, match: Match) -> list[Match]:
        return self.tell(Decline(match.job, match.seats))


def wide(ranks: int, number: int = 1, **fields) -> Want:
    return want(number, **({"shape": RankShape(ranks, ranks)} | fields))


def seat_of(match: Match, seat: SeatOffer, number: int = 1) -> Running:
    """What a machine reports of a seat."""
    first = sum(each.ranks for each in match.seats[: match.seats.index(seat)])
    which: AttemptId = attempt(match.job.number, number).seat(first)
    claimed = want(match.job.number, cpus=seat.ranks)
    return as_running(claimed, attempt_id=which, capability=seat.capability)
