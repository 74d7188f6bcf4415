"""Values that are stored whole, as bytes: msgpack.

A job's spec is a map by field name without what has its default, a claim likewise; a change is an
array that begins with its tag. So fields may be appended (with a default) and tags added without a
migration; to rename, reorder or retype one takes a migration that rewrites the rows.
"""

from __future__ import annotations

import msgspec

from iriai.model.charge_factors import Factors
from iriai.model.claim import Claim
from iriai.model.job import JobSpec
from iriai.model.records import Bucket, Change

encode = msgspec.msgpack.Encoder().encode
"""Bytes of a spec, a claim or a change."""
decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
decode_claim = msgspec.msgpack.Decoder(Claim).decode
decode_change = msgspec.msgpack.Decoder[Change](Change).decode

_decode_factors = msgspec.json.Decoder(Factors).decode
_decode_buckets = msgspec.json.Decoder(tuple[Bucket, ...]).decode


def encode_factors(factors: Factors) -> str | None:
    """As text that people can read in the table; None: all of it was at peak."""
    if all(factor == 1.0 for factor, _ in factors):
        return None
    return msgspec.json.encode(factors).decode()


def decode_factors(text: str | None) -> Factors:
    """The inverse, but for what was all at peak: nothing."""
    return () if text is None else _decode_factors(text)


def encode_buckets(buckets: tuple[Bucket, ...]) -> str | None:
    """The same, of what was used within a window; None: there is no window."""
    return msgspec.json.encode(buckets).decode() if buckets else None


def decode_buckets(text: str | None) -> tuple[Bucket, ...]:
    """The inverse."""
    return () if text is None else _decode_buckets(text)
