"""Barriers of ranks on several machines: everybody goes on, whatever is lost, and with the same."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from iriai.home import fences
from iriai.home.fences import Fences, Told
from iriai.model.ids import AttemptId
from iriai.protocol.messages.fences import Fence, Fenced

ATTEMPT = AttemptId("ume", 1, 0, 1)
SEATS = ((0, "ume"), (2, "take"), (5, "matsu"))
running = {ATTEMPT: SEATS}


def gathering(seats: dict[AttemptId, tuple[tuple[int, str], ...]] | None = None) -> Fences:
    known = running if seats is None else seats
    return Fences(lambda attempt: known.get(attempt, ()))


def fence(rank: int, number: int = 1, *put: tuple[bytes, bytes]) -> Fence:
    return Fence(ATTEMPT.seat(rank), number, put)


def test_all_are_told_once_the_last_has_come():
    at = gathering()
    assert at.take("take", fence(2, 1, (b"a", b"2"), (b"b", b"2"))) == []
    assert at.take("matsu", fence(5, 1, (b"b", b"5"))) == []
    put = ((b"z", b"0"), (b"a", b"2"), (b"b", b"2"))
    told = at.take("ume", fence(0, 1, (b"z", b"0")))
    assert told == [(machine, Fenced(ATTEMPT.seat(rank), 1, put)) for rank, machine in SEATS]


def test_who_asks_again_is_told_again_alone():
    at = gathering()
    for rank, machine in SEATS:
        at.take(machine, fence(rank))
    assert at.take("take", fence(2)) == [("take", Fenced(ATTEMPT.seat(2), 1, ()))]


def test_a_machine_speaks_for_its_own_seat_alone():
    at = gathering()
    assert at.take("oni", fence(2)) == at.take("take", fence(5)) == at.take("take", fence(3)) == []
    for machine, rank in (("ume", 0), ("matsu", 5)):
        assert at.take(machine, fence(rank)) == []
    assert len(at.take("take", fence(2))) == 3


def test_nothing_is_kept_of_attempts_that_do_not_run(monkeypatch):
    seats = {ATTEMPT: SEATS, ATTEMPT._replace(number=2): SEATS}
    at = gathering(seats)
    at.take("ume", fence(0))
    at.take("ume", Fence(ATTEMPT._replace(number=9), 1))
    assert len(at) == 1
    del seats[ATTEMPT]
    at.take("ume", Fence(ATTEMPT._replace(number=2), 1))
    assert len(at) == 1


def test_what_is_put_is_bounded(monkeypatch):
    monkeypatch.setattr(fences, "PUT_BYTES_MAX", 10)
    at = gathering()
    assert at.take("ume", fence(0, 1, (b"k", b"v" * 10))) == []
    assert at.take("ume", fence(0, 1, (b"k", b"v" * 4))) == []
    assert at.take("take", fence(2, 1, (b"l", b"v" * 5))) == []
    assert at.take("take", fence(2, 1, (b"l", b"v" * 4))) == []
    assert len(at.take("matsu", fence(5))) == 3


def test_numbers_far_from_the_others_are_not_kept():
    at = gathering()
    at.take("ume", fence(0, 3))
    for number in range(5, 1_000):
        assert at.take("take", fence(2, number)) == []
    assert len(at._attempts[ATTEMPT].barriers) == 1


class Seat:
    """A seat as its launcher and daemon know it."""

    def __init__(self, rank: int, machine: str) -> None:
        self.rank, self.machine = rank, machine
        self.told: list[Fence] = []
        self.passed: list[tuple[tuple[bytes, bytes], ...]] = []

    def come(self) -> Fence:
        number = len(self.passed) + 1
        self.told = [*self.told, fence(self.rank, number, (b"%d.%d" % (self.rank, number), b""))]
        self.told = self.told[-2:]
        return self.told[-1]

    @property
    def is_waiting(self) -> bool:
        return bool(self.told) and self.told[-1].number == len(self.passed) + 1


def settle(seats: list[Seat], say: Callable[[Seat, Fence], None]) -> None:
    """Every link comes up, and all come to the barrier at which the others are."""
    for _ in range(2):
        last = max(len(each.passed) + each.is_waiting for each in seats)
        for seat in seats:
            for each in list(seat.told):
                say(seat, each)
            while not seat.is_waiting and len(seat.passed) < last:
                say(seat, seat.come())


@given(st.lists(st.sampled_from(["come", "lost", "home", "again"]), max_size=60), st.randoms())
def test_whatever_is_lost_all_pass_the_same_barriers(events: list[str], rng) -> None:
    """Homes that come back, and messages that are lost, until links come up again."""
    at, seats = gathering(), [Seat(*each) for each in SEATS]

    def deliver(told: list[Told], lost: float) -> None:
        for _, fenced in told:
            [seat] = [each for each in seats if each.rank == fenced.attempt.rank]
            if rng.random() >= lost and seat.is_waiting and fenced.number == len(seat.passed) + 1:
                seat.passed.append(tuple(sorted(fenced.put)))

    def say(seat: Seat, each: Fence, lost: float) -> None:
        if rng.random() >= lost:
            deliver(at.take(seat.machine, each), lost)

    for event in events:
        seat = rng.choice(seats)
        if event == "home":
            at = gathering()
        elif event == "again":
            for each in seat.told:
                say(seat, each, 0.3)
        elif not seat.is_waiting:
            say(seat, seat.come(), 0.5 if event == "lost" else 0.0)
    settle(seats, lambda seat, each: say(seat, each, 0.0))
    assert len({len(each.passed) for each in seats}) == 1
    assert seats[0].passed == seats[1].passed == seats[2].passed
    for number, put in enumerate(seats[0].passed, 1):
        assert put == tuple(sorted((b"%d.%d" % (rank, number), b"") for rank, _ in SEATS))
