"""Files that are read while they grow."""

import os
from pathlib import Path

import pytest

from iriai.client.rpc_channel import ConnectionLost
from iriai.client.tail import PAUSE_MAX_S, PAUSE_MIN_S, READ_BYTES, FollowedFiles
from iriai.wire.requests import OutputPiece


def test_what_is_added_to_a_file_is_handed_on_once(tmp_path: Path):
    path, got = tmp_path / "out", []
    files = FollowedFiles()
    files.add(str(path), got.append)
    assert not files.advance(), "it does not exist yet"
    path.write_bytes(b"one")
    assert files.advance()
    with path.open("ab") as file:
        file.write(b"two")
    assert files.advance()
    assert not files.advance()
    assert got == [b"one", b"two"]


def test_the_end_of_every_file_is_reached(tmp_path: Path):
    content = bytes(range(256)) * (READ_BYTES // 64)
    sinks = [bytearray(), bytearray()]
    files = FollowedFiles()
    for place, sink in enumerate(sinks):
        (tmp_path / str(place)).write_bytes(content)
        files.add(str(tmp_path / str(place)), sink.extend)
    files.finish()
    assert sinks == [content, content]


def test_files_take_turns(tmp_path: Path):
    got: list[str] = []
    files = FollowedFiles()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(2 * READ_BYTES))
        files.add(str(tmp_path / name), lambda _, name=name: got.append(name))
    files.finish()
    assert got == ["a", "b", "a", "b"]


def test_tasks_that_share_a_file_do_not_repeat_it(tmp_path: Path):
    path, got = tmp_path / "shared", bytearray()
    files = FollowedFiles()
    for task in (b"one ", b"two ", b"three "):
        files.add(str(path), got.extend)
        with path.open("ab") as file:
            file.write(task)
        files.release(str(path))
    files.add(str(path), got.extend)
    files.add(str(path), got.extend)
    files.release(str(path))
    with path.open("ab") as file:
        file.write(b"four")
    files.finish()
    assert got == b"one two three four"


def test_a_released_file_is_read_to_its_end(tmp_path: Path):
    content = bytes(3 * READ_BYTES)
    (tmp_path / "out").write_bytes(content)
    got = bytearray()
    files = FollowedFiles()
    files.add(str(tmp_path / "out"), got.extend)
    files.release(str(tmp_path / "out"))
    files.release(str(tmp_path / "never added"))
    assert got == content


def test_a_file_named_twice_or_not_at_all_is_no_trouble(tmp_path: Path):
    (tmp_path / "out").write_bytes(b"once")
    got: list[bytes] = []
    files = FollowedFiles()
    for path in (str(tmp_path / "out"), str(tmp_path / "out"), ""):
        files.add(path, got.append)
    files.finish()
    assert got == [b"once"]


def test_pauses_grow_while_nothing_comes_and_shrink_when_something_does(tmp_path: Path):
    files = FollowedFiles()
    files.add(str(tmp_path / "out"), lambda _: None)
    for _ in range(10):
        files.advance()
    assert files.pause_s == PAUSE_MAX_S
    (tmp_path / "out").write_bytes(b"x")
    files.advance()
    assert files.pause_s == PAUSE_MIN_S


class FailingHome:
    """Hands on output by three bytes, and goes away where a test wants it."""

    def __init__(self, content: bytes, *lost_at: int) -> None:
        self.is_away = False
        self._content = content
        self._lost_at = list(lost_at)

    def poll(self, offset: int) -> OutputPiece:
        return self.read(offset)

    def read(self, offset: int, wait_s: float = 0.0) -> OutputPiece:
        if offset in self._lost_at:
            self._lost_at.remove(offset)
            self.is_away = True
        if self.is_away:
            raise ConnectionLost("away", "the daemon went away")
        piece = self._content[offset : offset + 3]
        return OutputPiece(piece, is_complete=offset + 3 >= len(self._content))


class SlowHome(FailingHome):
    """Answers later than it is asked, and its task goes on."""

    def poll(self, offset: int) -> None:
        return None

    def read(self, offset: int, wait_s: float = 0.0) -> OutputPiece:
        return OutputPiece(super().read(offset).content, is_complete=False)


def test_a_home_that_goes_away_at_the_end_is_asked_for_the_rest_and_nothing_comes_twice():
    got, problems = bytearray(), []
    files = FollowedFiles()
    home = FailingHome(b"one two three", 3, 9)
    files.fetch("/spool/x.out", home, got.extend, problems.append)
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            files.release("/spool/x.out")
        home.is_away = False
    files.release("/spool/x.out")
    assert (bytes(got), problems) == (b"one two three", [])
    files.release("/spool/x.out")  # it was handed on to its end
    files.finish()
    assert bytes(got) == b"one two three"


def test_all_that_is_followed_can_be_finished_once_more(tmp_path: Path):
    got = bytearray()
    (tmp_path / "near").write_bytes(b"near ")
    files, home = FollowedFiles(), FailingHome(b"far off", 0)
    files.add(str(tmp_path / "near"), got.extend)
    files.fetch("/spool/x.out", home, got.extend, print)
    with pytest.raises(ConnectionLost):
        files.finish()
    home.is_away = False
    files.finish()
    assert bytes(got) == b"near far off"


def test_all_that_is_there_now_is_copied_though_more_may_come(tmp_path: Path):
    got = bytearray()
    (tmp_path / "near").write_bytes(b"near ")
    files, home = FollowedFiles(), SlowHome(b"far off")
    files.add(str(tmp_path / "near"), got.extend)
    files.fetch("/spool/x.out", home, got.extend, print)
    files.catch_up()
    assert bytes(got) == b"near far off"


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_what_is_no_file_has_nothing_to_read(tmp_path: Path, kind: str):
    path = tmp_path / "out"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    got = bytearray()
    files = FollowedFiles()
    files.add(str(path), got.extend)
    assert not files.advance()
    files.finish()
    assert got == b""


@pytest.mark.root
def test_a_file_of_another_than_the_tasks_user_is_not_read(tmp_path: Path):
    path = tmp_path / "out"
    path.write_bytes(b"of another")
    os.chown(path, 2, -1)
    files = FollowedFiles()
    files.add(str(path), bytearray().extend, "daemon")
    with pytest.raises(PermissionError, match="not a file of daemon"):
        files.advance()
    os.chown(path, 1, -1)
    got = bytearray()
    files = FollowedFiles()
    files.add(str(path), got.extend, "daemon")
    files.finish()
    assert got == b"of another"
