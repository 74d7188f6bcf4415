"""Length-prefixed frames: four bytes, big-endian, then that many bytes."""

from __future__ import annotations

FRAME_BYTES_MAX = 256 << 20
"""The largest honest frame is a listing of some millions of jobs; more is not ours."""
_PREFIX_BYTES = 4


class FrameTooLong(ValueError):
    """The peer announced more than `FRAME_BYTES_MAX`: it does not speak our protocol."""


def frame(payload: bytes) -> bytes:
    """`payload` with its length before it."""
    return len(payload).to_bytes(_PREFIX_BYTES, "big") + payload


class FrameReader:
    """Cuts a stream of bytes into frames; keeps what is not complete yet."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, in order. Raises `FrameTooLong`."""
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        start = 0
        while len(buffer) - start >= _PREFIX_BYTES:
            length = int.from_bytes(buffer[start : start + _PREFIX_BYTES], "big")
            if length > FRAME_BYTES_MAX:
                raise FrameTooLong(f"a frame of {length} bytes; at most {FRAME_BYTES_MAX} are read")
            end = start + _PREFIX_BYTES + length
            if len(buffer) < end:
                break
            frames.append(bytes(buffer[start + _PREFIX_BYTES : end]))
            start = end
        if start:
            del buffer[:start]
        return frames
