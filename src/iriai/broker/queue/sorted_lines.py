"""Lines of alike tasks in the order of their first ones, and which of them fit.

A queue of thousands of kinds of tasks finds its first that fits without looking at all: lines stand
in blocks, and a block knows the shapes (`broker.queue.shape_index`) that are in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from iriai.broker.queue.shape_index import Mask

BLOCK_LINES_MAX = 64
"""A block of twice as many is split. Larger: more lines are looked at in a block; smaller: more
blocks."""


class Ordered(Protocol):
    """What stands in a line-up: its `bit` is that of its shape."""

    bit: Mask


Each = TypeVar("Each", bound=Ordered)
OrderKey = TypeVar("OrderKey", bound=tuple[Any, ...])


class _Block(Generic[OrderKey, Each]):
    __slots__ = ("items", "keys", "mask")

    def __init__(self, keys: list[OrderKey], items: list[Each]) -> None:
        self.keys = keys
        self.items = items
        self.mask: Mask = 0
        self.look()

    def look(self) -> None:
        """See which shapes are there: a mask keeps those of lines that have left until then."""
        mask = 0
        for item in self.items:
            mask |= item.bit
        self.mask = mask


class BlockedSortedList(Generic[OrderKey, Each]):
    """Items by unique keys, the smallest first."""

    def __init__(self) -> None:
        self._blocks: list[_Block[OrderKey, Each]] = []
        self._lasts: list[OrderKey] = []
        """The last key of each block."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[Each]:
        for block in self._blocks:
            yield from block.items

    def first(self) -> Each:
        """The item with the smallest key; there is one."""
        return self._blocks[0].items[0]

    def add(self, key: OrderKey, item: Each) -> None:
        """Put an item in its place."""
        if not self._blocks:
            self._blocks.append(_Block([key], [item]))
            self._lasts.append(key)
            return
        number = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        block = self._blocks[number]
        position = bisect_left(block.keys, key)
        block.keys.insert(position, key)
        block.items.insert(position, item)
        block.mask |= item.bit
        if len(block.keys) >= 2 * BLOCK_LINES_MAX:
            self._split(number)
        else:
            self._lasts[number] = block.keys[-1]

    def remove(self, key: OrderKey) -> None:
        """Take out the item with that key, which is there."""
        number = bisect_left(self._lasts, key)
        block = self._blocks[number]
        position = bisect_left(block.keys, key)
        del block.keys[position]
        del block.items[position]
        if block.keys:
            self._lasts[number] = block.keys[-1]
        else:
            del self._blocks[number]
            del self._lasts[number]

    def of(self, mask: Mask) -> Iterator[Each]:
        """The items of these shapes, in order; nothing may change while it is asked for more."""
        for block in self._blocks:
            if not block.mask & mask:
                continue
            is_there = False
            for item in block.items:
                if item.bit & mask:
                    is_there = True
                    yield item
            if not is_there:
                block.look()

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        later = _Block(block.keys[BLOCK_LINES_MAX:], block.items[BLOCK_LINES_MAX:])
        del block.keys[BLOCK_LINES_MAX:]
        del block.items[BLOCK_LINES_MAX:]
        block.look()
        self._blocks.insert(number + 1, later)
        self._lasts[number : number + 1] = [block.keys[-1], later.keys[-1]]
