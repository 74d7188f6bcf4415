"""An index that finds which task classes could fit into given free resources, all at once.

Kinds of tasks (what they take, how long they stay) that fall into the same bins share a *shape*, a
bit in large integers. The shapes that fit in a room are the conjunction of one mask for each
dimension; a queue that has nothing of them is passed over with one operation. Bins are coarse where
amounts are large, so a mask may hold shapes of which no kind fits in the end: whoever found one
looks at it exactly. This keeps the number of shapes small whatever people ask for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from iriai.model.resources import Resources

BLOCK_ITEMS_MAX = 64
"""A block of twice as many is split. Larger: more items are looked at in a block; smaller: more
blocks."""

Each = TypeVar("Each")
Included_contra = TypeVar("Included_contra", contravariant=True)
OrderKey = TypeVar("OrderKey", bound=tuple[Any, ...])


class BlockSummary(Protocol[Included_contra]):
    """Common properties of the items of a block; without arguments, those of an empty block.

    A block knows a summary of its items, such as the shapes that are in it, or the most that a
    machine of it has free. So the first of thousands of items that fits is found without a search
    of all.
    """

    def include(self, item: Included_contra, /) -> None:
        """Take in an item of the block as it is now."""


AnySummary = TypeVar("AnySummary", bound=BlockSummary[Any])


class SortedBlock(Generic[OrderKey, Each, AnySummary]):
    """Neighbours in the order."""

    __slots__ = ("_empty", "items", "keys", "summary")

    def __init__(
        self, keys: list[OrderKey], items: list[Each], empty: Callable[[], AnySummary]
    ) -> None:
        self.keys = keys
        self.items = items
        self._empty = empty
        self.summarize()

    def summarize(self) -> None:
        """Make the summary anew: until then it includes items that have left or shrunk."""
        summary = self._empty()
        for item in self.items:
            summary.include(item)
        self.summary = summary


class BlockedSortedList(Generic[OrderKey, Each, AnySummary]):
    """Items by unique keys, the smallest first."""

    def __init__(self, empty: Callable[[], AnySummary]) -> None:
        """`empty` makes the summary of a block without items."""
        self._empty = empty
        self.blocks: list[SortedBlock[OrderKey, Each, AnySummary]] = []
        self._lasts: list[OrderKey] = []
        """The last key of each block."""

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __iter__(self) -> Iterator[Each]:
        for block in self.blocks:
            yield from block.items

    def first(self) -> Each:
        """Return the item with the smallest key; there is one."""
        return self.blocks[0].items[0]

    def add(self, key: OrderKey, item: Each) -> None:
        """Insert an item by its key."""
        if not self.blocks:
            self.blocks.append(SortedBlock([key], [item], self._empty))
            self._lasts.append(key)
            return
        number = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        block = self.blocks[number]
        position = bisect_left(block.keys, key)
        block.keys.insert(position, key)
        block.items.insert(position, item)
        block.summary.include(item)
        if len(block.keys) >= 2 * BLOCK_ITEMS_MAX:
            self._split(number)
        else:
            self._lasts[number] = block.keys[-1]

    def place_of(self, key: OrderKey) -> tuple[int, int]:
        """Return the numbers of the block and of the item there where the keys from `key` begin."""
        number = bisect_left(self._lasts, key)
        is_past = number == len(self.blocks)
        return number, 0 if is_past else bisect_left(self.blocks[number].keys, key)

    def remove(self, key: OrderKey) -> None:
        """Remove the item with that key, which is present."""
        number = position = 0
        block = self.blocks[0]
        if block.keys[0] is not key:  # mostly it is, as those in front start first
            number = bisect_left(self._lasts, key)
            block = self.blocks[number]
            position = bisect_left(block.keys, key)
        del block.keys[position]
        del block.items[position]
        if block.keys:
            self._lasts[number] = block.keys[-1]
        else:
            del self.blocks[number]
            del self._lasts[number]

    def grew(self, key: OrderKey, item: Each) -> None:
        """Update the summary for the item with that key, which has more now."""
        self.blocks[bisect_left(self._lasts, key)].summary.include(item)

    def move_only(self, key: OrderKey) -> None:
        """Give the only item a new key; alone, it needs no new place."""
        block = self.blocks[0]
        block.keys[0] = self._lasts[0] = key
        block.summary.include(block.items[0])

    def _split(self, number: int) -> None:
        block = self.blocks[number]
        half = BLOCK_ITEMS_MAX
        later = SortedBlock(block.keys[half:], block.items[half:], self._empty)
        del block.keys[half:], block.items[half:]
        block.summarize()
        self.blocks.insert(number + 1, later)
        self._lasts[number : number + 1] = [block.keys[-1], later.keys[-1]]


BITS = 4
"""The leading bits of an amount that a bin keeps: all below 16, then eight bins an octave. Fewer:
more vain comparisons; more: more shapes, longer masks."""
OPEN_STAY_BIN = 1 << 20
"""The bin of a stay without end; more than the bin of any time."""
SPARE_SHAPES_MAX = 1024
"""Shapes without waiting tasks that keep their bits: requests repeat, and a known shape costs less
than a new one. More: longer masks."""

SEVERAL = 1
"""The bin `together` of a kind whose tasks may take several machines: more than a machine has."""
ROOMS_MAX = 4096
"""Different rooms whose shapes are remembered. Most machines of a busy site have one of a few
hundred."""

Mask = int
"""A bit for each shape."""


class SizeBins(NamedTuple):
    """The bins of a kind of task, or of a room."""

    cpus: int
    memory: int
    gpus: int
    stay: int
    together: int
    """Of a kind: 0 where it runs alone on its machine, else -1. Of a room: 0 where nothing runs
    there, else -1. `SEVERAL` of a kind whose tasks may take several machines, and of a pool. So a
    kind fits where each of its bins is at most the room's."""


def bin_of(amount: int) -> int:
    """Return the bin of an amount, which never falls as amounts rise; -1 for a negative one."""
    if amount < 0:
        return -1
    excess = amount.bit_length() - BITS
    return amount if excess <= 0 else (excess << (BITS - 1)) + (amount >> excess)


def bins_of(resources: Resources, stay_s: float | None, together: int) -> SizeBins:
    """Return the bins of a claim of `resources` for `stay_s` (None: open), or of a room."""
    memory_bytes, gpus = resources.memory_bytes, resources.gpus
    return SizeBins(  # of most there is nothing, whose bin is 0
        bin_of(resources.cpus),
        memory_bytes and bin_of(memory_bytes),
        gpus and bin_of(gpus),
        OPEN_STAY_BIN if stay_s is None else bin_of(int(stay_s)),
        together,
    )


class ShapeIndex:
    """The index of all shapes in use."""

    def __init__(self) -> None:
        self._positions: dict[SizeBins, int] = {}
        self._bins: list[SizeBins] = []
        """By position."""
        self._users: list[int] = []
        """The number of classes of each shape, by position."""
        self._spare: dict[int, None] = {}
        """Positions of shapes without a kind, the longest unused first."""
        self._masks: tuple[dict[int, Mask], ...] = tuple({} for _ in SizeBins._fields)
        """For each dimension, by bin."""
        self._up_to: tuple[dict[int, Mask], ...] = tuple({} for _ in SizeBins._fields)
        """The union of the masks of all bins up to one, for bounds that were asked for."""
        self._rooms: dict[tuple[Resources, int], Mask] = {}
        """What `fitting_in` returned since a shape came or went."""

    def acquire(self, bins: SizeBins) -> int:
        """Return the position of the shape with these bins, and count one class more of it."""
        position = self._positions.get(bins)
        if position is None:
            position = self._new_position()
            self._positions[bins] = position
            self._bins[position] = bins
            self._mark(bins, 1 << position)
        elif not self._users[position]:
            del self._spare[position]
        self._users[position] += 1
        return position

    def release(self, position: int) -> None:
        """Count one class of that shape less."""
        self._users[position] -= 1
        if not self._users[position]:
            self._spare[position] = None

    @property
    def wide(self) -> Mask:
        """Return the shapes of kinds that may take several machines."""
        return self._masks[-1].get(SEVERAL, 0)

    def fitting_in(self, free: Resources, together: int) -> Mask:
        """Return the shapes that may fit where so much is free, however long they stay."""
        mask = self._rooms.get((free, together))
        if mask is None:
            if len(self._rooms) >= ROOMS_MAX:
                self._rooms.clear()
            mask = self._rooms[free, together] = self.fitting(bins_of(free, None, together))
        return mask

    def fitting(self, room: SizeBins) -> Mask:
        """Return the shapes that may fit in a room."""
        mask = -1
        for bound, masks, up_to in zip(room, self._masks, self._up_to, strict=True):
            known = up_to.get(bound)
            if known is None:
                known = 0
                for amount, of_bin in masks.items():
                    if amount <= bound:
                        known |= of_bin
                up_to[bound] = known
            mask &= known
            if not mask:
                return 0
        return mask

    def _new_position(self) -> int:
        if len(self._spare) < SPARE_SHAPES_MAX:
            self._bins.append(SizeBins(0, 0, 0, 0, 0))
            self._users.append(0)
            return len(self._bins) - 1
        position = next(iter(self._spare))
        del self._spare[position]
        old = self._bins[position]
        del self._positions[old]
        self._mark(old, 1 << position)
        return position

    def _mark(self, bins: SizeBins, bit: Mask) -> None:
        """Set the bit in the masks of its bins, or clear it."""
        for amount, masks in zip(bins, self._masks, strict=True):
            left = masks.get(amount, 0) ^ bit
            if left:
                masks[amount] = left
            else:
                del masks[amount]
        for up_to in self._up_to:
            up_to.clear()
        self._rooms.clear()
