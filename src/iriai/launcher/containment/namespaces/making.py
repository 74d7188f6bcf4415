"""Making one mount namespace: in a thread that ends with it, so the launcher stays in its.

Everything is opened in the new namespace, by names that only root can give a meaning to, and
mounted through descriptors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

from iriai.launcher.containment.namespaces.visible import SHM, TMP, Visible
from iriai.launcher.system.syscalls import bind_mount, leave_mounts, mount_tmpfs

STICKY = 0o1777
"""As /tmp is: everybody may make files in it, and remove only their own."""
SHM_OPTIONS = "mode=1777,size=50%"
"""As much as the system's own may hold. Content counts for the group that writes it."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY_DIRECTORY = _ANYTHING | os.O_DIRECTORY

Result = TypeVar("Result")


class Made(NamedTuple):
    """Descriptors of a namespace and of the directories that are private in it."""

    fd: int
    directories: tuple[int, ...]


def make_namespace(private: str, visible: Visible) -> Made:
    """Make a namespace in which `private` is /tmp, and `visible` of the machine's appears.

    `private` is an empty directory that only root can reach. Raises OSError.
    """
    return _in_thread(lambda: _make(private, visible))


def why_impossible() -> str:
    """Return why no namespace can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "only root can mount"
    try:
        _in_thread(_try)
    except OSError as error:
        return f"{error.strerror} ({TMP} and {SHM} have to be directories)"
    return ""


def _try() -> None:
    leave_mounts()
    fd = os.open(TMP, _DIRECTORY)
    try:
        bind_mount(fd, TMP)
    finally:
        os.close(fd)
    os.close(os.open(SHM, _DIRECTORY))
    mount_tmpfs(SHM, SHM_OPTIONS)


def _make(private: str, visible: Visible) -> Made:
    leave_mounts()
    with ExitStack() as opened:
        directories = []
        if visible.tmp is not None:
            entries = _open_entries(TMP, visible.tmp, opened)
            source_fd = _open(private, _DIRECTORY, opened)
            bind_mount(source_fd, TMP)
            directories.append(_show(TMP, entries, opened))
        if visible.shm is not None:
            entries = _open_entries(SHM, visible.shm, opened)
            mount_tmpfs(SHM, SHM_OPTIONS)
            directories.append(_show(SHM, entries, opened))
        fd = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        return Made(fd, tuple(os.dup(each) for each in directories))


def _open(path: str, flags: int, opened: ExitStack) -> int:
    fd = os.open(path, flags)
    opened.callback(os.close, fd)
    return fd


class _Entry(NamedTuple):
    """An open entry of the machine's /tmp, whose content is not read."""

    fd: int
    is_directory: bool


def _open_entries(place: str, names: Iterable[str], opened: ExitStack) -> dict[str, _Entry]:
    """Open those of the entries that exist.

    The kernel knows the kind of an entry by itself; a further question could go to a file system
    that a user serves (FUSE), who may never answer.
    """
    place_fd = _open(place, _DIRECTORY, opened)
    result = {}
    for name in names:
        try:
            entry = _open_entry(name, place_fd)
        except (OSError, ValueError):  # missing, or not a valid name
            continue
        opened.callback(os.close, entry.fd)
        result[name] = entry
    return result


def _open_entry(name: str, place_fd: int) -> _Entry:
    try:
        return _Entry(os.open(name, _ANY_DIRECTORY, dir_fd=place_fd), is_directory=True)
    except NotADirectoryError:
        return _Entry(os.open(name, _ANYTHING, dir_fd=place_fd), is_directory=False)


def _show(place: str, entries: dict[str, _Entry], opened: ExitStack) -> int:
    """Bind the entries into the private directory mounted at `place`; return its descriptor."""
    fd = _open(place, _DIRECTORY, opened)
    for name, entry in entries.items():
        if entry.is_directory:
            os.mkdir(name, dir_fd=fd)
        elif (target := _link_target(entry.fd)) is not None:
            os.symlink(target, name, dir_fd=fd)
            continue
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=fd))
        bind_mount(entry.fd, f"/proc/self/fd/{fd}/{name}")
    return fd


def _link_target(fd: int) -> str | None:
    """Return the target of a symbolic link; None if it is no link."""
    try:
        return os.readlink("", dir_fd=fd)
    except OSError:
        return None


def _in_thread(action: Callable[[], Result]) -> Result:
    """Run `action` in a thread of its own; its mount namespace ends with it unless held."""
    with ThreadPoolExecutor(1, "namespace") as thread:
        return thread.submit(action).result()
