"""Errors of ours end what they happened in, are counted, and are said now and then."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from iriai.daemon.loop.culprits import FILE, SHUN_MAX_S, SHUN_MIN_S, Culprits
from iriai.daemon.transport.socket_stream import SocketStream
from iriai.system import internal_errors
from iriai.system.internal_errors import InternalErrors


def _failed(words: str) -> ValueError:
    try:
        raise ValueError(words)
    except ValueError as error:
        return error


def test_the_first_tenth_and_hundredth_are_logged(caplog: pytest.LogCaptureFixture):
    kept = InternalErrors()
    assert kept.trouble() == []
    with caplog.at_level(logging.ERROR):
        for number in range(100):
            assert kept.note("a request", _failed(f"no {number}")).endswith(f"no {number}")
    assert len(caplog.records) == 3
    assert all(record.exc_info for record in caplog.records)
    assert kept.count == 100
    [line] = kept.trouble()
    assert "100 times" in line
    assert "ValueError at" in line


def test_a_reader_that_fails_ends_its_connection_alone(monkeypatch: pytest.MonkeyPatch):
    noted = InternalErrors()
    monkeypatch.setattr("iriai.daemon.transport.socket_stream.FAULTS", noted)
    reasons: list[str] = []

    def fail(data: bytes) -> None:
        raise ZeroDivisionError(data.decode())

    async def story() -> None:
        ours, theirs = socket.socketpair()
        crashed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: crashed.append(what))
        with theirs:
            pipe = SocketStream(ours, fail, reasons.append)
            theirs.send(b"boo")
            while not pipe.is_closed:
                await asyncio.sleep(0)
        assert crashed == []

    asyncio.run(story())
    assert reasons == ["an internal error of iriai: ZeroDivisionError: boo"]
    assert noted.count == 1


def test_a_guarded_timer_ends_nothing_else(monkeypatch: pytest.MonkeyPatch):
    noted = InternalErrors()
    monkeypatch.setattr(internal_errors, "FAULTS", noted)

    def fail(error: Exception) -> None:
        raise error

    internal_errors.guarded("a timer", lambda: fail(_failed("no")))()
    assert noted.count == 1


def test_whoever_a_core_failed_over_is_shunned_longer_each_time(tmp_path: Path):
    culprits = Culprits(str(tmp_path))
    assert culprits.blocked(0.0) == []
    for times in range(1, 12):
        culprits.blame("oni", "End", _failed("no"), 1000.0)
        [(machine, for_s, words)] = Culprits(str(tmp_path)).blocked(1000.0)
        assert machine == "oni"
        assert for_s == min(SHUN_MAX_S, SHUN_MIN_S * 2 ** (times - 1))
        assert "End" in words
    assert Culprits(str(tmp_path)).blocked(1000.0 + SHUN_MAX_S) == []
    culprits.blame("oni", "End", _failed("no"), 1000.0 + 3 * SHUN_MAX_S)
    [(_, for_s, _)] = culprits.blocked(1000.0 + 3 * SHUN_MAX_S)
    assert for_s == SHUN_MIN_S


def test_a_damaged_file_of_culprits_shuns_nobody(tmp_path: Path):
    (tmp_path / FILE).write_text('{"oni": {"times": 1e400}}')
    assert Culprits(str(tmp_path)).blocked(0.0) == []
