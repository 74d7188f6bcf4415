"""How much a directory takes, as a walk finds it, and what its owner may put there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.directories import disk_use
from iriai.launcher.directories.disk_use import BLOCK_BYTES, DiskWalk, Uncountable


def walked(path: Path) -> DiskWalk:
    fd = os.open(path, os.O_RDONLY)
    walk = DiskWalk(fd)
    os.close(fd)
    try:
        while not walk.go_on():
            pass
    finally:
        walk.close()
    return walk


def blocks(*paths: Path) -> int:
    return sum(os.lstat(path).st_blocks for path in paths) * BLOCK_BYTES


NAMES = st.recursive(
    st.integers(0, 20_000),
    lambda below: st.dictionaries(st.sampled_from("abcdef"), below, max_size=4),
    max_leaves=20,
)


def fill(path: Path, tree: object) -> None:
    if isinstance(tree, int):
        path.write_bytes(b"x" * tree)
        return
    assert isinstance(tree, dict)
    path.mkdir()
    for name, below in tree.items():
        fill(path / name, below)


@given(NAMES.filter(lambda tree: isinstance(tree, dict)))
def test_a_walk_finds_what_du_finds(tree):
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "root")
        fill(root, tree)
        everything = [root, *root.rglob("*")]
        walk = walked(root)
        assert walk.used_bytes == blocks(*everything)
        assert walk.files == len(everything) - 1


def test_it_goes_on_in_parts(tmp_path: Path):
    for number in range(2 * disk_use.PART_ENTRIES + 1):
        (tmp_path / str(number)).touch()
    walk = DiskWalk(os.open(tmp_path, os.O_RDONLY))
    parts = 1
    while not walk.go_on():
        parts += 1
    assert (parts, walk.files) == (3, 2 * disk_use.PART_ENTRIES + 1)


def test_a_file_with_several_names_counts_once(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    for name in "bcd":
        os.link(tmp_path / "a", tmp_path / name)
    assert walked(tmp_path).used_bytes == blocks(tmp_path, tmp_path / "a")


def test_a_sparse_file_counts_what_it_takes(tmp_path: Path):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    assert walked(tmp_path).used_bytes < 1 << 20


def test_links_lead_nowhere(tmp_path: Path):
    (tmp_path / "all").symlink_to("/")
    (tmp_path / "self").symlink_to(tmp_path)
    assert walked(tmp_path).files == 2


def test_a_directory_that_is_a_link_by_the_time_it_is_opened_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What `is_dir` said of the name holds no more: a rename came between."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    for each in (inside, inside / "x", outside):
        each.mkdir()
    (outside / "large").write_bytes(b"x" * 100_000)
    real = disk_use._open_below

    def replaced(fd: int, name: str) -> int:
        (inside / "x").rmdir()
        (inside / "x").symlink_to(outside)
        return real(fd, name)

    monkeypatch.setattr(disk_use, "_open_below", replaced)
    assert walked(inside).used_bytes == blocks(inside)


def test_what_is_removed_meanwhile_does_not_matter(tmp_path: Path):
    for number in range(3 * disk_use.PART_ENTRIES):
        (tmp_path / str(number)).touch()
    walk = DiskWalk(os.open(tmp_path, os.O_RDONLY))
    assert not walk.go_on()
    for each in tmp_path.iterdir():
        each.unlink()
    while not walk.go_on():
        pass


def test_more_files_than_are_counted_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disk_use, "FILES_MAX", 10)
    for number in range(11):
        (tmp_path / str(number)).touch()
    with pytest.raises(Uncountable, match="more than 10 files"):
        walked(tmp_path)


def test_deeper_directories_are_named_and_their_descriptors_are_closed(tmp_path: Path):
    fd = os.open(tmp_path, os.O_RDONLY)
    walk = DiskWalk(fd)
    for _ in range(disk_use.DEPTH_MAX + 5):  # longer than a path may be
        os.mkdir("a" * 100, dir_fd=fd)
        below = os.open("a" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Uncountable, match="deeper than 200"):
        walk.go_on()
    walk.close()
    walk.close()
    assert len(os.listdir("/proc/self/fd")) < before


def test_names_that_are_no_text_are_counted(tmp_path: Path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe/\xff")).write_bytes(b"x" * 50_000)
    assert walked(tmp_path).files == 2
