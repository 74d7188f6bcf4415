"""A home alone: broker, nodes and clients are played by the test."""

from __future__ import annotations

from iriai.home.core import NO_TERMS, Home
from iriai.model.ids import AttemptId
from iriai.model.policy_terms import PolicyTerms
from iriai.model.records import AttemptResult, JobAccepted, JobEvent
from iriai.model.reservation import DEFAULT_LIMITS, ReservationLimits
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.scheduling import Begun, Capability, End, Match, Run, SeatOffer, Want
from iriai.sim.world.store_model import StoreModel
from tests.support.told import HOME, WALL_S, Told, attempt, instant, job, spec, told

CAPABILITY = Capability(1, 1, 1, 1)


class LoneHome:
    """Each call is a turn; its records are kept."""

    def __init__(
        self,
        store: StoreModel | None = None,
        now_s: float = 0.0,
        limits: ReservationLimits = DEFAULT_LIMITS,
        policy_terms: PolicyTerms = NO_TERMS,
    ) -> None:
        self.now_s = now_s
        self.store = store or StoreModel()
        state = self.store.load()
        reserved = (state.reservations, state.next_reservation)
        kept = (state.next_number, state.jobs, state.ended, *reserved)
        self.home = Home(HOME, *kept, limits=limits, policy_terms=policy_terms)
        self.first = self._turn(self.home.rejoin(instant(now_s)))

    def tell(self, *messages) -> Told:
        """Give it the messages of one instant."""
        effects = []
        for message in messages:
            effects += self.home.handle(message, instant(self.now_s))
        return self._turn(effects)

    def do(self, action) -> Told:
        """Something that a client asks: `action` is called with the home."""
        action(self.home)
        return self._turn([])

    def submit(self, **changes) -> Told:
        return self.do(lambda home: home.submit(spec(**changes), (), instant(self.now_s)))

    def start(self, number: int = 1, index: int = 0) -> AttemptId:
        """The broker's match becomes a running attempt."""
        [run] = self.tell(match(number)).node
        self.tell(Begun(run.attempt, HOME, WALL_S))
        return run.attempt

    def _turn(self, effects) -> Told:
        now = instant(self.now_s)
        self.effects = [*effects, *self.home.end_turn(now), *self.home.record(now)]
        said = told(self.effects)
        self.store.write(said.records)
        self.home.check()
        return said


def match(number: int = 1, machine: str = HOME) -> Match:
    return Match(job(number), (SeatOffer(machine, CAPABILITY),), 10.0)


def end(
    attempt_id: AttemptId,
    cause=EndCause.COMPLETED,
    code: int | None = 0,
    machine: str = HOME,
) -> End:
    start = (WALL_S, WALL_S + 5, 5.0)
    return End(AttemptResult(attempt_id, machine, cause, code, None, Usage(1.0), *start, 5.0, ""))


def wants(said: Told) -> list[tuple[int, int]]:
    """Number and count of each want."""
    return [(each.job.number, each.count) for each in said.broker if isinstance(each, Want)]


def changes(said: Told) -> list:
    """What happened to jobs, as it is kept."""
    return [record.change for record in said.records if isinstance(record, JobEvent)]


__all__ = ["CAPABILITY", "JobAccepted", "LoneHome", "Run", "attempt", "changes", "end", "match"]
