"""Environments, scripts and inputs that are too long for a frame of a network, piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iriai.model.text_digest import DIGEST_BYTES, digest_of
from iriai.wire.links import PIECE_BYTES, OutOfPlace, Piece

TEXT_BYTES_MAX = 16 << 20
"""Of one text: what `iriai submit` accepts of a script or an input."""
DIGEST = re.compile(rf"[0-9a-f]{{{2 * DIGEST_BYTES}}}")


def pieces(digest: str, text: bytes) -> Iterator[Piece]:
    """A text as frames."""
    for start in range(0, len(text), PIECE_BYTES):
        end = start + PIECE_BYTES
        yield Piece(digest, text[start:end], is_last=end >= len(text))


class PayloadChunks:
    """The text of which pieces have come, of one link: a sender finishes one before the next."""

    def __init__(self) -> None:
        self._digest = ""
        self._text = bytearray()

    @property
    def unfinished_bytes(self) -> int:
        """Of pieces whose last has not come."""
        return len(self._text)

    def add(self, piece: Piece) -> bytes | None:
        """The whole text, where this was its last piece.

        Raises `OutOfPlace` where it is longer than may be, not the text that it is called, called
        what no text is, or begun before the one before it has ended.
        """
        if not DIGEST.fullmatch(piece.digest):
            raise OutOfPlace(f"'{piece.digest[:40]}' is not the name of a text")
        if self._digest not in ("", piece.digest):
            raise OutOfPlace("pieces of two texts at a time")
        if not (piece.content or piece.is_last):
            raise OutOfPlace("an empty piece")
        if len(self._text) + len(piece.content) > TEXT_BYTES_MAX:
            raise OutOfPlace(f"a text of more than {TEXT_BYTES_MAX} bytes")
        self._digest = piece.digest
        self._text += piece.content
        if not piece.is_last:
            return None
        whole = bytes(self._text)
        self._digest, self._text = "", bytearray()
        if digest_of(whole) != piece.digest:
            raise OutOfPlace("a text that does not match its digest")
        return whole
