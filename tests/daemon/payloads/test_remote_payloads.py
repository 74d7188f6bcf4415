"""Texts of tasks that other machines send: how much of them is kept, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from iriai.daemon.payloads import remote_payloads as module
from iriai.daemon.payloads.remote_payloads import TEXT_BYTES, RemotePayloads
from iriai.links.text_pieces import TEXT_BYTES_MAX, PayloadChunks, pieces
from iriai.model.instant import Instant
from iriai.model.text_digest import digest_of
from iriai.wire.links import PIECE_BYTES, Piece

LONG = bytes(3 * PIECE_BYTES + 1)


class Texts:
    """Those that came to a node, whose claims need the texts `claimed`."""

    def __init__(self) -> None:
        self.claimed: list[str] = []
        self.turns: list[Callable[[Instant], None]] = []
        node = SimpleNamespace(specs=self._specs)
        engine = SimpleNamespace(machine=SimpleNamespace(node=node), request=self.turns.append)
        self.received = RemotePayloads(engine)  # type: ignore[arg-type]

    def come(self, sender: str, *texts: bytes) -> None:
        told = tuple((digest_of(text), text) for text in texts)
        self.received.receive(sender, told, forget=False)

    def turn(self) -> None:
        for handle in self.turns:
            handle(Instant(0.0, 0.0))
        self.turns.clear()

    def has(self, text: bytes) -> bool:
        try:
            return self.received.get(digest_of(text)) == text
        except KeyError:
            return False

    def _specs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(environment="", script=each, stdin="") for each in self.claimed]


def test_a_text_comes_in_pieces():
    coming = PayloadChunks()
    *first, last = [coming.add(each) for each in pieces(digest_of(LONG), LONG)]
    assert first == [None, None, None]
    assert last == LONG
    assert coming.unfinished_bytes == 0


@pytest.mark.parametrize("name", ["x" * (1 << 20), "", "ABCDEF" * 6, "0" * 31])
def test_a_text_with_a_name_that_is_no_digest_is_refused_and_nothing_is_kept(name: str):
    """T9j: 600 pieces with names of 1 MB took 600 MiB."""
    coming = PayloadChunks()
    with pytest.raises(ValueError, match="is not the name of a text"):
        coming.add(Piece(name, b"x", is_last=False))
    assert coming.unfinished_bytes == 0


def test_one_text_at_a_time():
    """T9j: texts that were begun and not ended grew in number without bound."""
    coming = PayloadChunks()
    coming.add(Piece("0" * 32, b"x", is_last=False))
    with pytest.raises(ValueError, match="two texts at a time"):
        coming.add(Piece("1" * 32, b"x", is_last=False))


def test_a_text_of_pieces_is_no_longer_than_one_may_be():
    coming = PayloadChunks()
    piece = Piece("0" * 32, bytes(PIECE_BYTES), is_last=False)
    for _ in range(TEXT_BYTES_MAX // PIECE_BYTES):
        coming.add(piece)
    with pytest.raises(ValueError, match="more than"):
        coming.add(piece)
    assert coming.unfinished_bytes <= TEXT_BYTES_MAX


def test_when_a_link_is_over_its_texts_are_dropped_but_for_those_of_claims():
    texts = Texts()
    texts.come("oni", b"claimed", b"not claimed")
    texts.come("ume", b"of another")
    texts.claimed = [digest_of(b"claimed")]
    texts.received.forget("oni")
    texts.turn()
    assert texts.has(b"claimed")
    assert texts.has(b"of another")
    assert not texts.has(b"not claimed")


def test_small_texts_count_with_what_keeping_them_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "TEXTS_BYTES_MAX", 10 * TEXT_BYTES)
    texts = Texts()
    with pytest.raises(ValueError, match="MiB of texts"):
        texts.come("oni", *(b"%d" % number for number in range(10)))
    texts.turn()
    texts.come("oni", b"one more")  # what was too much is not kept
    assert not texts.has(b"1")


def test_when_all_room_is_used_nobody_has_more_than_a_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "IN_ALL_BYTES_MAX", 10 * TEXT_BYTES)
    texts = Texts()
    texts.come("oni", *(b"%d" % number for number in range(9)))
    texts.come("ume", b"honest")
    with pytest.raises(ValueError, match="MiB of texts"):
        texts.come("oni", b"more")
    assert texts.has(b"honest")


def test_a_link_that_ends_for_its_texts_is_over(monkeypatch: pytest.MonkeyPatch):
    """Its end raised the same once more, so the link stayed in the books."""
    monkeypatch.setattr(module, "TEXTS_BYTES_MAX", 10 * TEXT_BYTES)
    texts = Texts()
    with pytest.raises(ValueError, match="MiB of texts"):
        texts.come("oni", *(b"%d" % number for number in range(10)))
    texts.received.receive("oni", (), forget=True)
    texts.turn()
    assert not texts.has(b"1")
