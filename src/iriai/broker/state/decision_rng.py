"""The dice of a broker: what is thrown depends on what was decided, not on how often it was looked.

A pass that comes to nothing leaves no trace: the next one throws the same again. So a broker that
looks once more than another, with the same before it, decides the same; a replay, which makes no
pass for what cannot matter, starts each job when the parts with all their messages do.
"""

from __future__ import annotations

from random import Random

_WORD = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15
_FIRST_FACTOR, _SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_DOUBLE_BITS = 53


class DecisionRng(Random):
    """A generator of which `random()` is thrown; what else it offers comes from that.

    The numbers of one decision are those of SplitMix64, begun from a mixture of the seed and the
    number of the decision (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    OOPSLA 2014, figure 16): a throw costs no more than one of the usual generator, and a new
    decision hardly anything.
    """

    def __init__(self, rng: Random) -> None:
        """`rng` gives the seed."""
        super().__init__(0)
        self._seed = rng.getrandbits(64)
        self._decisions = 0
        self._point: int | None = None
        """Where the last throw of this decision was; None: there was none yet."""

    def begin(self) -> None:
        """A pass begins: the throws of the decision that is due, from the first."""
        self._point = None

    def decided(self, count: int = 1) -> None:
        """Something starts, or a place is kept: what is thrown from here on is for the next."""
        self._decisions += count
        self._point = None

    def random(self) -> float:
        """The next throw, in [0, 1)."""
        point = self._point
        if point is None:
            point = _mixed(self._seed + self._decisions * _STRIDE)
        self._point = (point + _STRIDE) & _WORD
        return (_mixed(self._point) >> (64 - _DOUBLE_BITS)) * 2.0**-_DOUBLE_BITS


def _mixed(word: int) -> int:
    word &= _WORD
    word = ((word ^ (word >> 30)) * _FIRST_FACTOR) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND_FACTOR) & _WORD
    return word ^ (word >> 31)
