"""Bounds of outside input: the types with which fields of messages are declared.

msgspec checks them while it decodes, in C: a message with a field out of bounds is malformed, like
one of another shape. So numbers that overflow, and texts that fill the memory, do not get beyond
the decoder. Constructors check nothing.

A bound is far above honest values. Code that reports to a person what would be right has narrower
bounds of its own.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

_T = TypeVar("_T")


def decoded(
    decoder: msgspec.msgpack.Decoder[_T] | msgspec.json.Decoder[_T],
    content: bytes | bytearray | msgspec.Raw,
) -> _T:
    """Decode `content`; raise `msgspec.DecodeError` and nothing else.

    For text that is not UTF-8, for values nested a thousand deep, and for values that need too much
    memory, msgspec raises errors of Python, which callers that expect a malformed message would not
    catch.
    """
    try:
        return decoder.decode(content)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text is not UTF-8 ({error.reason})") from None
    except RecursionError:
        raise msgspec.DecodeError("values are nested too deeply") from None
    except (MemoryError, OverflowError):
        raise msgspec.DecodeError("a value is too large") from None


NUMBER_MAX = 2**53
"""Microseconds since 1970 are below it, and doubles count up to it."""
CHARACTERS_MAX = 1 << 28
"""The length of the longest text or bytes, which no frame holds."""
ITEMS_MAX = 1 << 20
ROWS_MAX = 1 << 24
REAL_MAX = 1e18
"""A product of several is still finite."""

# --- numbers -------------------------------------------------------------------------------------

Count = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""A count or a number: incarnations, versions and stamps as well."""
Whole = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
"""A whole number as a person wrote it: an impossible one is refused with a message."""
Bits = Annotated[int, Meta(ge=0, extra={"bits": 64})]
"""64 random bits, or those of a checksum: msgpack has no larger integers."""
Code = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Exit codes, signals, and ids of users, groups and processes."""
SizeBytes = Annotated[int, Meta(ge=0, le=2**60)]
"""A billion gigabytes: what a store or a column of 64 bits can add up."""
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that an expression can hold."""
Double = Annotated[float, Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]
"""The same for floats: any but infinity."""
Real = Annotated[float, Meta(ge=-REAL_MAX, le=REAL_MAX)]
"""A finite number."""
Amount = Annotated[float, Meta(ge=0.0, le=1e15)]
"""Charged seconds, and counters of them: a thousand cpus for thirty thousand years."""
Weight = Annotated[float, Meta(ge=0.0, le=1e9)]
"""Loads, prices and shares."""
Speed = Annotated[float, Meta(ge=0.01, le=1e9)]
"""The speed of a machine, relative to others, with the least that may be configured: loads are
divided by it."""
Percent = Annotated[float, Meta(ge=0.0, le=100.0)]
QUEUE_MAX = 63
"""The number of the lowest queue that there may be."""
QueueIndex = Annotated[int, Meta(ge=0, le=QUEUE_MAX)]
"""The number of a queue, 0 for the first."""
URGENCY_MAX = 1000.0
"""Bound of urgency: a thousand turns; more only makes numbers and charges overflow."""
Urgency = Annotated[float, Meta(gt=0.0, le=URGENCY_MAX)]
"""The factor of a job's charges, and of its weight at the head."""
Seconds = Annotated[float, Meta(ge=0.0, le=1e11)]
"""A duration, or a time of the wall clock or since boot. Three thousand years."""
Span = Annotated[float, Meta(ge=-1e11, le=1e11)]
"""A time from now, or between two clocks: the past is negative."""

# --- texts and bytes -----------------------------------------------------------------------------

Word = Annotated[str, Meta(max_length=128)]
"""Short texts of iriai: kinds, states, versions, digests, random ids."""
Name = Annotated[str, Meta(max_length=1024)]
"""A name of a machine, user, group, account, resource, or file of iriai."""
Expression = Annotated[str, Meta(max_length=1 << 16)]
"""Requirements and ranks; ids and patterns of a request."""
Words = Annotated[str, Meta(max_length=1 << 20)]
"""Text for people."""
Text = Annotated[str, Meta(max_length=CHARACTERS_MAX)]
"""A user's text in a job, as the store keeps it: submission has narrower bounds."""
CONSOLE_BYTES_MAX = 64 << 10
"""Bytes of a file of console lines; a hundred queues with all their keys take a third of it."""
KeyBytes = Annotated[bytes, Meta(max_length=4096)]
"""Keys, secrets and signatures."""
Document = Annotated[bytes, Meta(max_length=4 << 20)]
"""Certificates, and signed content."""
Content = Annotated[bytes, Meta(max_length=CHARACTERS_MAX)]
"""Environments, scripts, inputs, output."""

# --- several -------------------------------------------------------------------------------------

Few = Meta(max_length=1024)
"""Addresses, parts, operators, ranges of a few."""
Many = Meta(max_length=ITEMS_MAX)
"""Attempts, capabilities, entries: as many as a frame has room for."""
Environment = Annotated[dict[Text, Text], Many]
"""Variables and their values."""
Rows = Meta(max_length=ROWS_MAX)
"""Listings of jobs."""
