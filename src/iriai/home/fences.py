"""Gathers what the seats of an attempt have put before a barrier.

Nothing is stored: each seat tells its last two barriers again to a home that came back. Two
suffice, since no seat comes to a barrier before all have come to the one before.
"""

from __future__ import annotations

from collections.abc import Callable

from iriai.model.ids import AttemptId
from iriai.protocol.messages.fences import Fence, Fenced

PUT_BYTES_MAX = 4 << 20
"""Of all keys and values of a barrier: what is gathered fits into one frame between machines."""

SeatsOf = Callable[[AttemptId], tuple[tuple[int, str], ...]]
"""Returns first rank and machine of each seat of an attempt that runs; none if it does not."""

Told = tuple[str, Fenced]
"""A machine, and what it is told."""


class _Barrier:
    """What has come to one barrier."""

    def __init__(self) -> None:
        self.come: dict[int, Fence] = {}
        """By first rank of the seat."""
        self.size_bytes = 0

    def take(self, fence: Fence) -> bool:
        """Take in a seat; return False if there is no room for what it has put."""
        size_bytes = sum(len(key) + len(value) for key, value in fence.put)
        if self.size_bytes + size_bytes > PUT_BYTES_MAX:
            return False
        self.size_bytes += size_bytes
        self.come[fence.attempt.rank] = fence
        return True

    def gathered(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return what all have put; of one key that of the lowest seat."""
        result: dict[bytes, bytes] = {}
        for rank in sorted(self.come):
            for key, value in self.come[rank].put:
                result.setdefault(key, value)
        return tuple(result.items())


class _Attempt:
    """The barriers of one attempt."""

    def __init__(self, seats: tuple[tuple[int, str], ...]) -> None:
        self.seats = dict(seats)
        self.barriers: dict[int, _Barrier] = {}

    def may_come(self, number: int) -> bool:
        """Whether a seat can be at a barrier, with the others where they are."""
        last = max(self.barriers, default=number)
        return last - 1 <= number <= last + 1


class Fences:
    """The barriers of all attempts of a home that have ranks on several machines."""

    def __init__(self, seats_of: SeatsOf) -> None:
        self._seats_of = seats_of
        self._attempts: dict[AttemptId, _Attempt] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def take(self, sender: str, fence: Fence) -> list[Told]:
        """Take in that a seat on `sender` has come to a barrier; return what is told to whom."""
        whole, rank, number = fence.attempt.seat(0), fence.attempt.rank, fence.number
        found = self._attempts.get(whole)
        if found is None:
            found = self._begin(whole)
        if found.seats.get(rank) != sender or not found.may_come(number):
            return []
        barrier = found.barriers.setdefault(number, _Barrier())
        is_repeated = rank in barrier.come
        if not is_repeated and not barrier.take(fence):
            return []
        if len(barrier.come) < len(found.seats):
            return []
        for earlier in [each for each in found.barriers if each < number - 1]:
            del found.barriers[earlier]
        told = Fenced(whole, number, barrier.gathered())
        seats = {rank: sender} if is_repeated else found.seats
        return [
            (machine, Fenced(whole.seat(first), told.number, told.put))
            for first, machine in seats.items()
        ]

    def _begin(self, attempt: AttemptId) -> _Attempt:
        """Begin with the barriers of an attempt; forget those of attempts that have ended."""
        for each in [each for each in self._attempts if not self._seats_of(each)]:
            del self._attempts[each]
        seats = self._seats_of(attempt)
        found = _Attempt(seats)
        if seats:
            self._attempts[attempt] = found
        return found
