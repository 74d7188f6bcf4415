"""Length-prefixed frames: four bytes, big-endian, then that many bytes."""

from __future__ import annotations

FRAME_BYTES_MAX = 256 << 20
"""The largest honest frame is a listing of some millions of jobs."""
_PREFIX_BYTES = 4


class FrameTooLong(ValueError):
    """The peer announced a longer frame than is accepted: it uses another protocol, or attacks."""

    def __init__(self, length: int, bytes_max: int) -> None:
        super().__init__(f"a frame of {length} bytes; at most {bytes_max} are read")
        self.length, self.bytes_max = length, bytes_max


def frame(payload: bytes) -> bytes:
    """Return `payload` with its length in front."""
    return len(payload).to_bytes(_PREFIX_BYTES, "big") + payload


class FrameReader:
    """Cuts a stream of bytes into frames; keeps an incomplete one."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        """A longer frame is refused."""
        self.held = bytearray()
        """Of an incomplete frame."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes, in order. Raises `FrameTooLong`."""
        held = self.held
        if not held:
            frames, end = self._cut(data)
            held += data[end:]
            return frames
        held += data
        with memoryview(held) as view:  # a part of a bytearray would be copied twice
            frames, end = self._cut(view)
        del held[:end]
        return frames

    def _cut(self, content: bytes | memoryview) -> tuple[list[bytes], int]:
        """Return the complete frames in `content`, and where the last of them ends."""
        frames: list[bytes] = []
        start = 0
        while len(content) - start >= _PREFIX_BYTES:
            length = int.from_bytes(content[start : start + _PREFIX_BYTES], "big")
            if length > self.bytes_max:
                raise FrameTooLong(length, self.bytes_max)
            end = start + _PREFIX_BYTES + length
            if len(content) < end:
                break
            frames.append(bytes(content[start + _PREFIX_BYTES : end]))
            start = end
        return frames, start
