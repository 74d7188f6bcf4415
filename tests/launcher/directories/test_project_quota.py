"""Project quotas: the numbers that the kernel gets, and what is done where there are none."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from iriai.launcher.directories import project_quota
from iriai.launcher.directories.project_quota import FIRST_PROJECT, ProjectQuotas, try_quotas

Q_GETQUOTA, Q_SETQUOTA, PROJECT = 0x800007, 0x800008, 2


class FileSystem:
    """A file system with quotas, as the kernel shows it: by ioctl and quotactl_fd."""

    def __init__(self, counted_bytes: int = 0) -> None:
        self.used: dict[int, int] = {}
        self.limits: dict[int, int] = {}
        self.project_of: dict[int, int] = {}
        self.counted_bytes = counted_bytes
        """What a new project counts once something was written."""

    def ioctl(self, fd: int, request: int, content: bytes) -> bytes:
        if request == 0x801C581F:
            return struct.pack("=5I8x", 0x10, 0, 0, 0, 0)
        assert request == 0x401C5820
        flags, _, _, project, _ = struct.unpack("=5I8x", content)
        assert flags == 0x210  # those it had, and what is made in it inherits the project
        self.project_of[fd] = project
        self.used[project] = self.counted_bytes
        return content

    def quotactl(self, _fd: int, command: int, project: int, content: bytes) -> bytes:
        assert command & 0xFF == PROJECT
        if command >> 8 == Q_GETQUOTA:
            limit_kib = -(-self.limits.get(project, 0) // 1024)
            used = self.used.get(project, 0)
            return struct.pack("=8QI4x", limit_kib, 0, used, 0, 0, 0, 0, 0, 63)
        assert command >> 8 == Q_SETQUOTA
        fields = struct.unpack("=8QI4x", content)
        assert fields[1:] == (0, 0, 0, 0, 0, 0, 0, 1)
        self.limits[project] = fields[0] * 1024
        return content


@pytest.fixture
def file_system(monkeypatch: pytest.MonkeyPatch) -> FileSystem:
    made = FileSystem(project_quota.TRIAL_BYTES)
    monkeypatch.setattr(project_quota.fcntl, "ioctl", made.ioctl)
    monkeypatch.setattr(project_quota, "_quotactl", made.quotactl)
    return made


def test_a_directory_gets_a_project_and_a_limit_above_which_it_is_ended(file_system: FileSystem):
    quota = ProjectQuotas(7).begin(8, 10 << 20)
    assert file_system.project_of == {8: quota.project}
    assert quota.project >= FIRST_PROJECT
    assert file_system.limits[quota.project] == (10 << 20) + project_quota.SLACK_BYTES
    file_system.used[quota.project] = 12345
    assert quota.used_bytes() == 12345


def test_a_project_under_which_something_is_counted_is_given_to_no_other(file_system: FileSystem):
    quotas = ProjectQuotas(7)
    first, second = quotas.begin(8, 1), quotas.begin(9, 1)
    quotas.end(first)
    assert file_system.limits[first.project] == 0
    quotas._next = first.project - FIRST_PROJECT - 1
    third = quotas.begin(10, 1)
    assert len({first.project, second.project, third.project}) == 3


def test_a_limit_that_no_file_system_could_reach_is_kept_within_its_numbers(
    file_system: FileSystem,
):
    quota = ProjectQuotas(7).begin(8, 1 << 76)
    assert file_system.limits[quota.project] == 1 << 62


def test_a_trial_leaves_nothing(file_system: FileSystem, tmp_path: Path):
    fd = os.open(tmp_path, os.O_RDONLY)
    assert isinstance(try_quotas(fd, "trial"), ProjectQuotas)
    assert list(tmp_path.iterdir()) == []
    assert set(file_system.limits.values()) == {0}


def test_what_does_not_count_is_not_used(file_system: FileSystem, tmp_path: Path):
    file_system.counted_bytes = 4096
    with pytest.raises(OSError, match="4096 of 1048576 bytes are counted"):
        try_quotas(os.open(tmp_path, os.O_RDONLY), "trial")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_quotas_says_so(tmp_path: Path):
    """/proc has none on any kernel; a trial leaves nothing either."""
    with pytest.raises(OSError) as refused:  # noqa: PT011 - which one is the kernel's choice
        project_quota.ProjectQuota(os.open("/proc", os.O_RDONLY), 1).used_bytes()
    assert refused.value.errno in (errno.ENOSYS, errno.ESRCH, errno.EPERM, errno.ENOTTY)


def test_a_file_system_that_was_mounted_without_quotas_is_not_called_a_missing_process(monkeypatch):
    monkeypatch.setattr(project_quota, "_libc", SimpleNamespace(syscall=lambda *_: -1))
    monkeypatch.setattr(project_quota.ctypes, "get_errno", lambda: errno.ESRCH)
    with pytest.raises(OSError, match="mounted without prjquota") as refused:
        project_quota.ProjectQuota(7, 1).used_bytes()
    assert refused.value.errno == errno.ESRCH
