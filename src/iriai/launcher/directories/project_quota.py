"""Project quotas: the file system itself counts what a task's directory takes, and refuses more.

Whether one has them is found out by trial: a directory is given a project, a file is written, and
it has to be counted. Interfaces: ioctl FS_IOC_FSSETXATTR and quotactl_fd(2), Linux 5.14 or newer.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

FIRST_PROJECT = 0x69000000
"""Of those that are given to tasks; a site's own have small numbers."""
PROJECTS = 1 << 20
PROJECTS_TRIED = 1000
"""Before it is given up to find one under which nothing is counted."""
SLACK_BYTES = 4 << 20
"""What a directory may take above its limit, so that what is written is counted as too much before
the file system refuses it, and the neighbours keep their room."""
TRIAL_BYTES = 1 << 20
NO_QUOTAS = "the file system is mounted without prjquota"
"""What ESRCH means here; its usual text is "No such process"."""
LIMIT_BYTES_MAX = 1 << 62
"""As many ranks of what one may have would be more; no file system holds so much."""

_GET_ATTRIBUTES = 0x801C581F
_SET_ATTRIBUTES = 0x401C5820
_ATTRIBUTES = struct.Struct("=5I8x")
"""struct fsxattr: flags, extent size, extents, project, and another extent size."""
_INHERIT = 0x200
_QUOTACTL_FD = 443
_OF_PROJECT = 2
_GET_QUOTA = 0x800007 << 8 | _OF_PROJECT
_SET_QUOTA = 0x800008 << 8 | _OF_PROJECT
_QUOTA = struct.Struct("=8QI4x")
"""struct if_dqblk: hard and soft limit in KiB, bytes, three of files, two times, what is set."""
_LIMITS_COUNT = 1

_libc = ctypes.CDLL(None, use_errno=True)


class ProjectQuota:
    """The quota of one directory."""

    def __init__(self, file_system_fd: int, project: int) -> None:
        self._fd = file_system_fd
        self.project = project

    def used_bytes(self) -> int:
        """Return what is counted, with what was written and is not allocated yet.

        Raises OSError.
        """
        content = _quotactl(self._fd, _GET_QUOTA, self.project, bytes(_QUOTA.size))
        return int(_QUOTA.unpack(content)[2])

    def limit(self, limit_bytes: int) -> None:
        """Let the file system refuse more than that; 0: refuse nothing. Raises OSError."""
        limit_kib = -(-min(limit_bytes, LIMIT_BYTES_MAX) // 1024)
        content = _QUOTA.pack(limit_kib, 0, 0, 0, 0, 0, 0, 0, _LIMITS_COUNT)
        _quotactl(self._fd, _SET_QUOTA, self.project, content)


class ProjectQuotas:
    """Gives projects of one file system to directories."""

    def __init__(self, file_system_fd: int) -> None:
        """`file_system_fd` is a directory in it that stays open."""
        self._fd = file_system_fd
        self._next = os.getpid() % PROJECTS
        self._in_use: set[int] = set()

    def begin(self, directory_fd: int, limit_bytes: int) -> ProjectQuota:
        """Limit an empty directory. Raises OSError."""
        quota = self._unused()
        quota.limit(limit_bytes + SLACK_BYTES)
        set_project(directory_fd, quota.project)
        self._in_use.add(quota.project)
        return quota

    def end(self, quota: ProjectQuota) -> None:
        """Limit a directory no more that is about to be removed. Raises OSError."""
        self._in_use.discard(quota.project)
        quota.limit(0)

    def _unused(self) -> ProjectQuota:
        for _ in range(PROJECTS_TRIED):
            self._next = (self._next + 1) % PROJECTS
            quota = ProjectQuota(self._fd, FIRST_PROJECT + self._next)
            if quota.project not in self._in_use and not quota.used_bytes():
                return quota
        raise OSError(errno.EDQUOT, "no project is unused")


def set_project(directory_fd: int, project: int) -> None:
    """Count an empty directory, and what is made in it, as a project's. Raises OSError."""
    content = fcntl.ioctl(directory_fd, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
    flags, extent_bytes, extents, _, copied_bytes = _ATTRIBUTES.unpack(content)
    new = _ATTRIBUTES.pack(flags | _INHERIT, extent_bytes, extents, project, copied_bytes)
    fcntl.ioctl(directory_fd, _SET_ATTRIBUTES, new)


def try_quotas(parent_fd: int, name: str) -> ProjectQuotas:
    """Return the quotas of a file system, tried in a directory `name` of `parent_fd`, made anew.

    Raises OSError, with the reason as its text, where there are none that count and refuse.
    """
    os.mkdir(name, 0o700, dir_fd=parent_fd)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent_fd)
        try:
            quotas = ProjectQuotas(parent_fd)
            _try(quotas, fd)
            return quotas
        finally:
            os.close(fd)
    finally:
        os.rmdir(name, dir_fd=parent_fd)


def _try(quotas: ProjectQuotas, fd: int) -> None:
    quota = quotas.begin(fd, 0)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open("trial", flags, 0o600, dir_fd=fd)
        try:
            os.write(file, bytes(TRIAL_BYTES))
        finally:
            os.close(file)
            counted_bytes = quota.used_bytes()
            os.unlink("trial", dir_fd=fd)
        if counted_bytes < TRIAL_BYTES:
            raise OSError(errno.EOPNOTSUPP, f"{counted_bytes} of {TRIAL_BYTES} bytes are counted")
    finally:
        quotas.end(quota)


def _quotactl(fd: int, command: int, project: int, content: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(content, _QUOTA.size)
    if _libc.syscall(_QUOTACTL_FD, fd, command, project, buffer) < 0:
        code = ctypes.get_errno()
        raise OSError(code, NO_QUOTAS if code == errno.ESRCH else os.strerror(code))
    return buffer.raw
