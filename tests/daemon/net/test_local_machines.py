from pathlib import Path

import pytest

from iriai.daemon.net.local_links import FILE, LocalMachines


def test_a_name_stands_for_a_directory_through_restarts(tmp_path: Path):
    known = LocalMachines(str(tmp_path))
    assert known.token_of("b1") is None
    known.learn("b1", "one")
    known.learn("b2", "two")
    again = LocalMachines(str(tmp_path))
    assert again.names() == ["b1", "b2"]
    assert again.token_of("b1") == "one"
    again.learn("b1", "other")
    assert LocalMachines(str(tmp_path)).token_of("b1") == "other"


def test_a_name_that_is_forgotten_stands_for_nothing_through_restarts(tmp_path: Path):
    known = LocalMachines(str(tmp_path))
    known.learn("b1", "one")
    known.learn("b2", "two")
    known.forget("b1")
    known.forget("b9")
    assert known.names() == ["b2"]
    again = LocalMachines(str(tmp_path))
    assert again.names() == ["b2"]
    assert again.token_of("b1") is None


def test_what_cannot_be_written_is_not_known(tmp_path: Path):
    known = LocalMachines(str(tmp_path / "gone"))
    with pytest.raises(OSError, match="No such file"):
        known.learn("b1", "one")
    assert known.names() == []


@pytest.mark.parametrize("text", ["", "[]", "{", "\0"])
def test_a_file_that_is_not_ours_is_replaced(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)
    known = LocalMachines(str(tmp_path))
    assert known.names() == []
    known.learn("b1", "one")
    assert LocalMachines(str(tmp_path)).names() == ["b1"]
