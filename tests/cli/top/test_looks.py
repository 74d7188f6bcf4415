"""Looking into a job: the end of its output, wherever it is, and as much as fits on a screen."""

from __future__ import annotations

import os

from iriai.cli.top.looks import FILES_MAX, PIECES_MAX, TAIL_BYTES, logs_text
from iriai.wire.requests import LogFile, LogFiles, OutputPiece, ReadOutput
from tests.cli.top.daemon import FixedClient


class Pieces:
    """What a home keeps, piece by piece; the channel of a client."""

    def __init__(self, content: bytes, piece_bytes: int) -> None:
        self.asked = 0
        self._content = content
        self._piece_bytes = piece_bytes

    def ask(self, request: ReadOutput) -> OutputPiece:
        self.asked += 1
        end = request.offset + self._piece_bytes
        return OutputPiece(self._content[request.offset : end], end >= len(self._content))


def client_of(*files: LogFile) -> FixedClient:
    return FixedClient(lambda _: LogFiles(files))


def kept(content: bytes, piece_bytes: int) -> tuple[str, Pieces]:
    client = client_of(LogFile("ume-1.0", 1, True, "out", "", is_kept=True))
    channel = Pieces(content, piece_bytes)
    client._connection = type("Connection", (), {"channel": channel})()
    return logs_text(client, "ume-1"), channel


def test_the_end_of_a_long_file_is_shown(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"early\n" + b"x" * TAIL_BYTES + b"\nlate\x1b[2J\n")
    text = logs_text(client_of(LogFile("ume-1.0", 1, False, str(path), "")), "ume-1")
    assert text.endswith(r"late\x1b[2J")
    assert "early" not in text
    assert len(text) < TAIL_BYTES + 1000


def test_output_and_errors_of_the_latest_tasks_have_headings(tmp_path):
    files = []
    for task in range(FILES_MAX + 3):
        output, error = tmp_path / f"{task}.out", tmp_path / f"{task}.err"
        output.write_text(f"said {task}\n")
        error.write_text(f"wrong {task}\n")
        files.append(LogFile(f"ume-1.{task}", 1, True, str(output), str(error)))
    text = logs_text(client_of(*files), "ume-1")
    assert text.startswith("and 3 more: iriai logs ume-1\n==> ume-1.3: ")
    assert f"==> ume-1.{FILES_MAX + 2}: {tmp_path}/10.err <==\nwrong 10" in text


def test_a_file_that_is_not_there_or_no_file_is_said_and_does_no_harm(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    files = (
        LogFile("ume-1.0", 1, False, str(tmp_path / "none"), ""),
        LogFile("ume-1.1", 1, False, str(tmp_path / "far"), "", machine="momo"),
        LogFile("ume-1.2", 1, False, str(tmp_path / "pipe"), ""),
    )
    text = logs_text(client_of(*files), "ume-1")
    assert "(nothing yet)" in text
    assert "the output of ume-1.1 is on momo" in text
    assert "it cannot be read: it is not a file" in text


def test_output_that_the_home_keeps_is_asked_for_and_cut():
    text, _ = kept(b"early\n" + b"y" * TAIL_BYTES + b"\nlate", 5000)
    assert text.endswith("late")
    assert "early" not in text


def test_a_home_that_never_ends_is_not_asked_for_ever():
    _, channel = kept(b"z" * 1000, 1)
    assert channel.asked == PIECES_MAX
