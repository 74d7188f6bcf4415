"""Output of tasks that goes from the machine where they run to their home, piece by piece."""

import asyncio
from types import SimpleNamespace

import pytest

from iriai.daemon.tasks import output_fetcher as copies_module
from iriai.daemon.tasks import output_server as source_module
from iriai.daemon.tasks.output_fetcher import CopyKey, OutputFetcher
from iriai.daemon.tasks.output_server import OutputServer
from iriai.launcher.directories.spool import spool_name
from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.output import PIECE_BYTES, AskOutput, Output
from tests.support.loops import in_loop, until

ATTEMPT = AttemptId("ume", 1, 0, 1)
NO_PLACES = (-(2**63), -1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
"""Numbers that a message can carry, and that are no place in a file, or far behind its end."""


def source(spool, said, *running: AttemptId) -> OutputServer:
    node = SimpleNamespace(calendar=running)
    machine = SimpleNamespace(name="take", parts=(Part.NODE,), node=node)
    return OutputServer(SimpleNamespace(machine=machine), str(spool), said.extend)


def copies(spool, said) -> OutputFetcher:
    return OutputFetcher(str(spool), said.extend, lambda _: True, lambda _: True)


@pytest.mark.parametrize("offset", NO_PLACES)
def test_a_question_for_a_place_that_is_none_has_an_empty_answer(tmp_path, offset):
    async def body() -> None:
        said = []
        (tmp_path / spool_name(ATTEMPT, "out")).write_bytes(b"printed")
        asked = source(tmp_path, said)
        asked.asked("ume", AskOutput(ATTEMPT, "out", offset))
        asked.close()
        assert [send.message for send in said] == [Output(ATTEMPT, "out", offset, b"", True)]

    in_loop(body)


@pytest.mark.parametrize("offset", NO_PLACES)
def test_a_client_is_told_nothing_from_a_place_that_is_none(tmp_path, offset):
    async def body() -> None:
        kept = copies(tmp_path, [])
        (tmp_path / spool_name(ATTEMPT, "out")).write_bytes(b"printed")
        assert kept.piece(CopyKey(ATTEMPT, "out"), offset).content == b""
        assert kept.piece(CopyKey(ATTEMPT, "out"), 3).content == b"nted"

    in_loop(body)


def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path):
    async def body() -> None:
        (tmp_path / spool_name(ATTEMPT, "out")).mkdir()  # root reads any file, but no directory
        said = []
        asked = source(tmp_path, said)
        asked.asked("ume", AskOutput(ATTEMPT, "out", 0))
        asked.close()
        assert [send.message.content for send in said] == [b""]
        piece = copies(tmp_path, []).piece(CopyKey(ATTEMPT, "out"), 0)
        assert (piece.content, piece.is_complete) == (b"", True)
        assert piece.problem == "it cannot be read here: it is not a file"

    in_loop(body)


def test_a_question_too_many_is_not_answered_where_there_is_nothing_to_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "PENDING_MAX", 1)
    first, second = ATTEMPT, AttemptId("ume", 2, 0, 1)

    async def body() -> None:
        said = []
        asked = source(tmp_path, said, first, second)
        for attempt in (first, second):
            asked.asked("ume", AskOutput(attempt, "out", 0))
        assert said == []
        (tmp_path / spool_name(second, "out")).write_bytes(b"news")
        asked.asked("ume", AskOutput(second, "out", 0))  # there is something: it is told
        assert [send.message.content for send in said] == [b"news"]
        (tmp_path / spool_name(first, "out")).write_bytes(b"waited for")
        await until(lambda: len(said) == 2)
        assert said[1].message.content == b"waited for"
        asked.close()

    in_loop(body)


def test_more_is_asked_for_at_once_only_after_a_full_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(copies_module, "PAUSE_S", 3600.0)

    async def body() -> None:
        said = []
        kept = copies(tmp_path, said)
        kept.begin(ATTEMPT, "take")
        asked = [send.message for send in said]
        assert asked == [AskOutput(ATTEMPT, "out", 0), AskOutput(ATTEMPT, "err", 0)]
        kept.receive("take", Output(ATTEMPT, "out", 0, bytes(PIECE_BYTES), False))
        await until(lambda: len(said) == 3)
        assert said[2].message == AskOutput(ATTEMPT, "out", PIECE_BYTES)
        kept.receive("take", Output(ATTEMPT, "out", PIECE_BYTES, b"little", False))
        kept.receive("take", Output(ATTEMPT, "err", 0, b"", False))
        for _ in range(3):  # rounds of the event loop, in which it would be asked
            await asyncio.sleep(0)
        assert len(said) == 3
        key = CopyKey(ATTEMPT, "out")
        assert kept.piece(key, PIECE_BYTES).content == b"little"
        assert kept.piece(key, PIECE_BYTES).problem == ""  # it is still brought
        kept.close()

    in_loop(body)
