"""Bytes from others to objects: whatever is wrong with them is one kind of error."""

from __future__ import annotations

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def decoded(
    decoder: msgspec.msgpack.Decoder[_T] | msgspec.json.Decoder[_T],
    content: bytes | bytearray | msgspec.Raw,
) -> _T:
    """What `content` holds; raises `msgspec.DecodeError` and nothing else.

    For text that is not UTF-8, for values in each other a thousand deep, and for what takes more
    memory than there is, msgspec raises errors of Python's own, which whoever expects a malformed
    message would not catch.
    """
    try:
        return decoder.decode(content)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text is not UTF-8 ({error.reason})") from None
    except RecursionError:
        raise msgspec.DecodeError("values are nested too deeply") from None
    except (MemoryError, OverflowError):
        raise msgspec.DecodeError("a value is too large to be held") from None
