"""The sensor of terminals: the kernel notices when input is read from one, not when it prints.

The terminals of our own tasks do not count. Whose one is is found out when it is first used: a look
at the processes that may have opened it, which is bounded, and which others than its user do not
wait for.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Collection
from contextlib import suppress

from iriai.launcher.owner.own_terminals import OwnTerminals
from iriai.launcher.system.inotify import (
    ACCESSED,
    ATTRIBUTES,
    FORGOTTEN,
    MADE,
    OVERFLOWED,
    REMOVED,
    Inotify,
)
from iriai.model.owner import SensorState, SignKind
from iriai.system.clock import steady_s

LIST_REST_S = 0.05
"""Between two looks at the directory: whoever opens and closes terminals costs no more."""
RETRY_S = 10.0
"""Until the next trial to watch a directory that could not be watched."""
REST_FACTOR, REST_FACTOR_OF_USER = 2.0, 20.0
"""How much longer than a look no other follows: none at all, and none for the same user."""
REST_MIN_S = 0.01
USERS_MAX = 4096
"""Of whom it is remembered when the next look is due."""


class TerminalSensor:
    """Watches `devices`/pts, what appears there, and the virtual consoles in `devices`."""

    kind = SignKind.TERMINAL

    def __init__(self, devices: str, launcher: int) -> None:
        self._devices = devices
        self._folder = f"{devices}/pts"
        self._own_terminals = OwnTerminals(self._folder, launcher)
        self._appears: Inotify | None = None
        self._used: Inotify | None = None
        """Apart, so that no number of new terminals comes before the notice of a use."""
        self._watches: dict[str, int] = {}
        """By path, of all that are watched."""
        self._paths: dict[int, str] = {}
        """The same, by watch."""
        self._counts: dict[int, bool] = {}
        """By watch, of those that were used: False, it is a task's."""
        self._undecided: dict[int, int] = {}
        """Those that were used, and it is not known, with their user ids."""
        self._look_due_s = 0.0
        self._user_due_s: dict[int, float] = {}
        """By user id, when the next look at their processes is due."""
        self._rest_until_s = 0.0
        self._list_due_s = 0.0
        self._refused = self._problem = ""
        """Why one terminal, or the directory, cannot be watched."""

    def descriptors(self, now_s: float) -> list[int]:
        """Return what to wait for until it is readable, or `due_s` has come."""
        result = [] if self._used is None else [self._used.fd]
        if self._appears is not None and now_s >= self._rest_until_s:
            result.append(self._appears.fd)
        return result

    def due_s(self) -> float:
        """Return when `take` is to be called although nothing is readable; infinite: never."""
        due_s = self._list_due_s
        if self._rest_until_s > 0.0:
            due_s = min(due_s, self._rest_until_s)
        if self._undecided:
            users_s = [self._user_due_s.get(uid, 0.0) for uid in self._undecided.values()]
            due_s = min(due_s, max(self._look_due_s, min(users_s)))
        return due_s

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Take in what has come; return whether there was a sign."""
        is_used = False
        if now_s >= self._rest_until_s:
            self._rest_until_s = 0.0
        if self._used is not None and self._used.fd in readable:
            is_used = self._take_uses(self._used, now_s)
        if self._appears is not None and self._appears.fd in readable:
            self._appears.read()
            self._list_due_s = 0.0
        if now_s >= self._list_due_s:
            self._list_due_s, self._rest_until_s = math.inf, now_s + LIST_REST_S
            self._list(now_s)
        if self._undecided and now_s >= self._look_due_s:
            is_used = self._decide(now_s) or is_used
        return is_used

    def state(self) -> SensorState:
        """Return how it does."""
        if self._problem or self._appears is None:
            return SensorState(self.kind, False, self._problem)
        words = f"{self._folder} and consoles"
        if os.geteuid() != 0:
            words += ", as far as its own user may look at them"
        if self._refused:
            return SensorState(self.kind, False, self._refused)
        return SensorState(self.kind, True, words)

    # --- uses ------------------------------------------------------------------------------------

    def _take_uses(self, used: Inotify, now_s: float) -> bool:
        is_used = False
        for watch, mask in used.read():
            if mask & OVERFLOWED:
                self._begin_anew()
                return is_used
            if mask & FORGOTTEN:
                self._forget(watch)
                self._list_due_s = min(self._list_due_s, now_s + LIST_REST_S)
            elif mask & ACCESSED and watch in self._paths:
                counts = self._counts.get(watch)
                is_used = is_used or bool(counts)
                if counts is None and watch not in self._undecided:
                    self._await_decision(watch)
        return is_used

    def _await_decision(self, watch: int) -> None:
        with suppress(OSError):  # it is gone
            self._undecided[watch] = os.stat(self._paths[watch]).st_uid

    def _forget(self, watch: int) -> None:
        path = self._paths.pop(watch, "")
        if self._watches.get(path) == watch:
            del self._watches[path]
        self._counts.pop(watch, None)
        self._undecided.pop(watch, None)

    def _begin_anew(self) -> None:
        """Watch all again: notices were lost, so whose a terminal is is not known any more."""
        if self._used is not None:
            self._used.close()
            self._used = None
        for each in (self._watches, self._paths, self._counts, self._undecided):
            each.clear()
        self._list_due_s = 0.0

    # --- whose they are --------------------------------------------------------------------------

    def _decide(self, now_s: float) -> bool:
        """Find out of one user's terminals whose they are; return whether that was a sign."""
        users = dict.fromkeys(self._undecided.values())
        due = [uid for uid in users if now_s >= self._user_due_s.get(uid, 0.0)]
        if not due:
            return False
        uid = min(due, key=lambda each: self._user_due_s.get(each, 0.0))
        begun_s = steady_s()
        held, is_whole = self._own_terminals.held_by(uid)
        self._rest_after_look(uid, begun_s)
        for path, watch in self._watches.items():
            if self._counts.get(watch) is None and _number_of(path) in held:
                self._mute(path, watch)
        left = [watch for watch, user in self._undecided.items() if user == uid]
        for watch in left:
            del self._undecided[watch]  # if there was no time: its next use is looked at
            if is_whole:
                self._counts[watch] = True
        return is_whole and bool(left)

    def _rest_after_look(self, uid: int, begun_s: float) -> None:
        done_s = steady_s()
        lasted_s = max(done_s - begun_s, REST_MIN_S / REST_FACTOR)
        self._look_due_s = done_s + REST_FACTOR * lasted_s
        if len(self._user_due_s) >= USERS_MAX:
            self._user_due_s.clear()
        self._user_due_s[uid] = done_s + REST_FACTOR_OF_USER * lasted_s

    def _mute(self, path: str, watch: int) -> None:
        """Hear no more of a terminal but its end."""
        self._undecided.pop(watch, None)
        self._counts[watch] = False
        if self._used is not None:
            with suppress(OSError):
                self._used.watch(path, REMOVED)

    # --- what there is ---------------------------------------------------------------------------

    def _list(self, now_s: float) -> None:
        """Watch what has appeared."""
        self._refused = ""
        try:
            used = self._begin()
            names = [each for each in os.listdir(self._folder) if each.isdecimal()]
        except OSError as error:
            self._problem = f"{self._folder}: {error.strerror}"
            self._list_due_s = now_s + RETRY_S
            return
        self._problem = ""
        for name in names:
            path = f"{self._folder}/{name}"
            if path not in self._watches:
                self._watch(used, path)

    def _begin(self) -> Inotify:
        """Return the queue of uses; both are there then. Raises OSError."""
        if self._appears is None:
            appears = Inotify()
            try:
                appears.watch(self._folder, MADE | ATTRIBUTES)
            except OSError:
                appears.close()
                raise
            self._appears = appears
        if self._used is None:
            self._used = Inotify()
            for path in _consoles(self._devices):
                self._watch(self._used, path)
            self._counts = dict.fromkeys(self._paths, True)
        return self._used

    def _watch(self, used: Inotify, path: str) -> None:
        try:
            watch = used.watch(path, ACCESSED)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EACCES):  # gone; another user's
                self._refused = str(error.strerror)
            return
        self._watches[path], self._paths[watch] = watch, path


def _consoles(devices: str) -> list[str]:
    """Return the virtual consoles: tty0 is the one in front, and has a name of its own."""
    with suppress(OSError):
        names = [each for each in os.listdir(devices) if each.startswith("tty")]
        return [f"{devices}/{each}" for each in names if each[3:].isdecimal() and each != "tty0"]
    return []


def _number_of(path: str) -> int:
    """Return the number of a terminal; -1 of a console."""
    name = path.rsplit("/", 1)[1]
    return int(name) if name.isdecimal() else -1
