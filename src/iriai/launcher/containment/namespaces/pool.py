"""Provides mount namespaces to tasks and takes them back.

Making one takes about a millisecond, entering one some microseconds. So a namespace whose task left
/tmp and /dev/shm unchanged, as most do, serves the next task of the same user for which the same
entries of the machine are visible.
"""

from __future__ import annotations

import logging
import os
import select
from collections import OrderedDict

from iriai.launcher.containment.namespaces.making import (
    STICKY,
    Made,
    make_namespace,
    why_impossible,
)
from iriai.launcher.containment.namespaces.visible import (
    EVERYTHING,
    SHM,
    TMP,
    Visible,
    visible_below,
)
from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.directories.scratch import NoDirectory, Scratch, ScratchRoot
from iriai.launcher.directories.stamp import Stamp

log = logging.getLogger(__name__)

IDLE_MAX = 256
"""Namespaces kept for later tasks; the one that was idle longest is dropped first."""

_Key = tuple[int, Visible]


class Namespace:
    """One mount namespace, and the initial state of its private directories."""

    def __init__(
        self, made: Made, key: _Key, private: tuple[ScratchRoot, str] | None, era: int
    ) -> None:
        self.fd, self._directories = made
        self.key = key
        """The user, and what of the machine's is visible."""
        self.private = private
        """The private /tmp in the launcher's own directory."""
        self.era = era
        self._stamps = [Stamp(fd) for fd in self._directories]

    def is_untouched(self, begun_s: float) -> bool:
        """Return whether a task changed nothing; it began at `begun_s` on the steady clock."""
        return all(stamp.is_untouched(begun_s) for stamp in self._stamps)

    def close(self) -> None:
        """Close its descriptors; the kernel removes its mounts."""
        for fd in (self.fd, *self._directories):
            os.close(fd)


class Namespaces:
    """Unchanged namespaces, by user and what is visible in them."""

    def __init__(self, scratch: Scratch, *needed: str) -> None:
        """`needed` are paths that all tasks see: scripts, the daemon's socket, iriai itself."""
        self._scratch = scratch
        self._needed = needed
        self._idle: OrderedDict[_Key, list[Namespace]] = OrderedDict()
        self._idle_count = 0
        self._settings: tuple[bool, str] = (False, "")
        self._is_used = False
        self._era = 0
        """Namespaces of an earlier one are not used again."""
        self._refusal = why_impossible()
        self._watch = None if self._refusal or _is_shared_root() else _watch_mounts()

    def use(self, tmp: str, *, wanted: bool) -> None:
        """Use namespaces from now on, or none; new directories are made below `tmp`."""
        if (wanted, tmp) != self._settings:
            self._settings = (wanted, tmp)
            self._is_used = wanted and not self._refusal
            self._rebuild()

    def enforcement(self) -> Enforcement:
        """Return the row for `doctor`."""
        is_off = not self._settings[0]
        if refusal := "private_tmp = false in [machine]" if is_off else self._refusal:
            return Enforcement("private-tmp", "not private", refusal)
        return Enforcement("private-tmp", "mount namespaces", f"{TMP} and {SHM} of each task")

    def follow_mounts(self) -> None:
        """Use no namespace again that lacks mounts of the machine; call it before `acquire`."""
        if self._watch is not None and self._watch.poll(0):
            self._rebuild()

    def acquire(self, uid: int, visible: Visible) -> Namespace | None:
        """Return a namespace for a task; None if it uses the machine's. Raises `NoDirectory`."""
        if not self._is_used or visible == EVERYTHING:
            return None
        key = (uid, visible)
        idle = self._idle.get(key)
        if idle:
            self._idle_count -= 1
            return idle.pop()
        return self._new(key)

    def give_back(self, namespace: Namespace, begun_s: float) -> None:
        """Take back the namespace of a task that is over and began at `begun_s`, as there."""
        if namespace.era != self._era or not namespace.is_untouched(begun_s):
            self._drop(namespace)
            return
        self._idle.setdefault(namespace.key, []).append(namespace)
        self._idle.move_to_end(namespace.key)
        self._idle_count += 1
        if self._idle_count > IDLE_MAX:
            self._drop_oldest()

    def close(self) -> None:
        """Drop all that are not in use."""
        self._rebuild()

    def _new(self, key: _Key) -> Namespace:
        place: ScratchRoot | None = None
        name = path = ""
        uid, visible = key
        try:
            always = visible_below((*self._needed, self._scratch.place.path))
            visible = visible.joined(always)
            if visible.tmp is not None:
                place, name = self._scratch.new_private(STICKY)
                path = f"{place.private_path}/{name}"
            made = make_namespace(path, visible)
        except OSError as error:
            if place is not None:
                self._scratch.remove_private(place, name)
            raise NoDirectory(f"no private /tmp can be made: {error.strerror}") from error
        log.debug("a mount namespace for user id %d", uid)
        private = None if place is None else (place, name)
        return Namespace(made, key, private, self._era)

    def _rebuild(self) -> None:
        self._era += 1
        for idle in self._idle.values():
            for namespace in idle:
                self._drop(namespace)
        self._idle.clear()
        self._idle_count = 0

    def _drop_oldest(self) -> None:
        key = next(iter(self._idle))
        idle = self._idle[key]
        if idle:
            self._idle_count -= 1
            self._drop(idle.pop(0))
        if not idle:
            del self._idle[key]

    def _drop(self, namespace: Namespace) -> None:
        """Close it in a thread: the kernel takes long to remove the mounts."""
        self._scratch.later(namespace.close)
        if namespace.private is not None:
            self._scratch.remove_private(*namespace.private)


def _is_shared_root() -> bool:
    """Return whether later mounts of this machine appear in existing namespaces."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file]
    roots = [words for words in lines if words[4] == "/"]
    return bool(roots) and any(word.startswith("shared:") for word in roots[-1][6:])


def _watch_mounts() -> select.poll:
    """Return a poll that reports each change of this machine's mounts once."""
    fd = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
    watch = select.poll()
    watch.register(fd, select.POLLPRI)
    return watch
