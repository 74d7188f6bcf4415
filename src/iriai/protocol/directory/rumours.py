"""Telling rumours as paper 001 has it (sections 2.3.1 and 4.5): until enough others knew already.

A setting for comparison; it does not reach everybody. What a machine learns it tells to others at
random, until so many have answered that they knew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iriai.protocol.messages.entries import DigestRow, EntryKey


class Rumours:
    """What is still told."""

    def __init__(self, stop_after: int) -> None:
        self._stop_after = stop_after
        self._told: dict[EntryKey, tuple[tuple[int, int, int], int]] = {}
        """By key: which version, and how many knew it."""

    def __len__(self) -> int:
        return len(self._told)

    def __iter__(self) -> Iterator[EntryKey]:
        return iter(tuple(self._told))

    def learned(self, row: DigestRow) -> None:
        """Tell it from now on."""
        self._told[row.key] = (row.order, 0)

    def known(self, rows: Iterable[DigestRow]) -> None:
        """Somebody knew these."""
        for row in rows:
            told = self._told.get(row.key)
            if told is None or told[0] > row.order:
                continue
            if told[1] + 1 >= self._stop_after:
                del self._told[row.key]
            else:
                self._told[row.key] = (told[0], told[1] + 1)

    def forget(self, key: EntryKey) -> None:
        """It is gone."""
        self._told.pop(key, None)
