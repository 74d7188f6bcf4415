"""Items in order, in blocks: what cannot be in a block is not looked for there.

A block knows a summary of its items, such as the shapes that are in it, or the most that a machine
of it has free. So the first of thousands of items that fits is found without looking at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

BLOCK_ITEMS_MAX = 64
"""A block of twice as many is split. Larger: more items are looked at in a block; smaller: more
blocks."""

Each = TypeVar("Each")
Included_contra = TypeVar("Included_contra", contravariant=True)
OrderKey = TypeVar("OrderKey", bound=tuple[Any, ...])


class BlockSummary(Protocol[Included_contra]):
    """What the items of a block have together; made without arguments, it is that of none."""

    def include(self, item: Included_contra, /) -> None:
        """The item is in the block, as it is now."""


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
        """See what is there: a summary keeps what has left or shrunk until then."""
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
        """The item with the smallest key; there is one."""
        return self.blocks[0].items[0]

    def add(self, key: OrderKey, item: Each) -> None:
        """Put an item in its place."""
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

    def remove(self, key: OrderKey) -> None:
        """Take out the item with that key, which is there."""
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
        """The item with that key has more now."""
        self.blocks[bisect_left(self._lasts, key)].summary.include(item)

    def move_only(self, key: OrderKey) -> None:
        """The only item has this key now; alone, there is no order to keep."""
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
