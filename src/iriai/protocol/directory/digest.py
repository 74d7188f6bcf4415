"""A table's digest in a few numbers, with which two tables find where they differ."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from iriai.protocol.messages.entries import DigestRow, EntryKey

BUCKETS = 64
"""An outline of 64 checksums takes 600 bytes, and leaves 8 rows of 500 machines to a bucket."""

_encode = msgspec.msgpack.Encoder().encode


def row_hash(row: DigestRow) -> int:
    """Return a 64-bit hash of a row; the same on every machine."""
    return int.from_bytes(blake2b(_encode(row), digest_size=8).digest(), "big")


def bucket_of(key: EntryKey) -> int:
    """Return the bucket of a key."""
    return blake2b(f"{key.machine}/{key.kind}".encode(), digest_size=1).digest()[0] % BUCKETS


class Digest:
    """Rows by bucket, and the exclusive or of their hashes, of all and of each bucket."""

    def __init__(self) -> None:
        self.checksum = 0
        self.outline = [0] * BUCKETS
        self._buckets: list[dict[EntryKey, DigestRow]] = [{} for _ in range(BUCKETS)]

    def copy(self) -> Digest:
        """Return a copy."""
        digest = Digest()
        digest.checksum, digest.outline = self.checksum, list(self.outline)
        digest._buckets = [dict(rows) for rows in self._buckets]
        return digest

    def put(self, row: DigestRow) -> None:
        """Add a row; it replaces the row of the same key."""
        key = row.key
        self.drop(key)
        bucket = bucket_of(key)
        self._buckets[bucket][key] = row
        self._turn(bucket, row)

    def drop(self, key: EntryKey) -> None:
        """Remove the row of a key, if there is one."""
        bucket = bucket_of(key)
        row = self._buckets[bucket].pop(key, None)
        if row is not None:
            self._turn(bucket, row)

    def rows(self, bucket: int) -> tuple[DigestRow, ...]:
        """Return the rows of a bucket."""
        return tuple(self._buckets[bucket].values())

    def row(self, key: EntryKey) -> DigestRow | None:
        """Return the row of a key; None if there is none."""
        return self._buckets[bucket_of(key)].get(key)

    def is_news(self, row: DigestRow) -> bool:
        """Return whether `row` is later than the held row of its key."""
        held = self.row(row.key)
        return held is None or row.order > held.order

    def checksum_with(self, rows: Iterable[DigestRow]) -> int:
        """Return the checksum that results if `rows` replace those of their keys."""
        checksum = self.checksum
        for row in rows:
            held = self.row(row.key)
            checksum ^= row_hash(row) ^ (row_hash(held) if held is not None else 0)
        return checksum

    def _turn(self, bucket: int, row: DigestRow) -> None:
        number = row_hash(row)
        self.checksum ^= number
        self.outline[bucket] ^= number
