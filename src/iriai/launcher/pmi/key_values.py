"""The key-value space of one attempt, as one of its seats knows it."""

from __future__ import annotations

from collections.abc import Mapping

KEYS_OF_RANK_MAX = 4096
BYTES_MAX = 4 << 20
"""Of all keys and values of an attempt: what is gathered fits into one frame between machines. A
seat has its ranks' share."""


class NotStored(Exception):
    """A key cannot be put; the text has no blank: it is passed on."""


class KeyValues:
    """What all see, and what ranks of this seat have put since the last barrier."""

    def __init__(self, known: Mapping[bytes, bytes], ranks: int, size: int) -> None:
        """Begin with what is `known`; the seat has so many `ranks` of `size`."""
        self._share = ranks / size
        self._all = dict(known)
        self._put: dict[int, dict[bytes, bytes]] = {}
        self._counts: dict[int, int] = {}
        self._bytes = 0
        """Of all that was put here."""

    def get(self, rank: int, key: bytes) -> bytes | None:
        """Return what `rank` sees: its own, and what others put before the last barrier."""
        found = self._put.get(rank, {}).get(key)
        return self._all.get(key) if found is None else found

    def put(self, rank: int, key: bytes, value: bytes) -> None:
        """Put a key for all, once. Raises `NotStored`."""
        own = self._put.setdefault(rank, {})
        if key in own or key in self._all:
            raise NotStored("duplicate_key")
        if self._counts.get(rank, 0) >= KEYS_OF_RANK_MAX:
            raise NotStored(f"more_than_KEYS_OF_RANK_MAX={KEYS_OF_RANK_MAX}")
        size_bytes = len(key) + len(value)
        if self._bytes + size_bytes > BYTES_MAX * self._share:
            raise NotStored(f"more_than_its_share_of_BYTES_MAX={BYTES_MAX}")
        self._bytes += size_bytes
        self._counts[rank] = self._counts.get(rank, 0) + 1
        own[key] = value

    def drain(self) -> dict[bytes, bytes]:
        """Return what was put here since the last call; of one key that of the lowest rank."""
        result: dict[bytes, bytes] = {}
        for rank in sorted(self._put):
            for key, value in self._put[rank].items():
                result.setdefault(key, value)
        self._put.clear()
        return result

    def show(self, gathered: Mapping[bytes, bytes]) -> None:
        """Let all see what was gathered from all seats; what they saw before stays."""
        for key, value in gathered.items():
            self._all.setdefault(key, value)
