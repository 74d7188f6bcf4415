"""Environments, scripts and inputs that are too long for a frame of a network, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.daemon.payloads import digest_of
from iriai.wire.links import PIECE_BYTES, Piece

TEXT_BYTES_MAX = 16 << 20
"""Of one text: what `iriai submit` accepts of a script or an input."""
UNFINISHED_BYTES_MAX = 64 << 20
"""Of all texts of a link whose last piece has not come: a sender finishes one before the next."""


def pieces(digest: str, text: bytes) -> Iterator[Piece]:
    """A text as frames."""
    for start in range(0, len(text), PIECE_BYTES):
        end = start + PIECE_BYTES
        yield Piece(digest, text[start:end], is_last=end >= len(text))


class TextPieces:
    """Those that have come so far."""

    def __init__(self) -> None:
        self._unfinished: dict[str, bytearray] = {}
        self._bytes = 0

    def take(self, piece: Piece) -> bytes | None:
        """The whole text, where this was its last piece.

        Raises ValueError where it is longer than may be, or not the text that it is called.
        """
        text = self._unfinished.setdefault(piece.digest, bytearray())
        text += piece.content
        self._bytes += len(piece.content)
        if len(text) > TEXT_BYTES_MAX or self._bytes > UNFINISHED_BYTES_MAX:
            raise ValueError(f"a text of more than {TEXT_BYTES_MAX} bytes")
        if not piece.is_last:
            return None
        del self._unfinished[piece.digest]
        self._bytes -= len(text)
        whole = bytes(text)
        if digest_of(whole) != piece.digest:
            raise ValueError("a text that is not what it is called")
        return whole
