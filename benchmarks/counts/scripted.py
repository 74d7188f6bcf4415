"""A world that is the same in each run: time that passes when told, one user, no chance.

`settle` replaces functions of Python's library, so it is called before anything of iriai is
imported.
"""

from __future__ import annotations

import gc
import grp
import os
import pwd
import random
import secrets
import time
from types import SimpleNamespace
from typing import Any

BEGIN_STEADY_S = 50_000_000.0
"""Later than any machine has been up: a timer of the kernel for such a moment never comes."""
BEGIN_WALL_S = 4_000_000_000.0
"""Later than any file was made that this run finds."""
UID = 4242
"""The one user's."""
CPUS = 2
USER = "ann"
GROUP = "staff"
SEED = 1


class ScriptedClock:
    """All clocks of this process."""

    def __init__(self) -> None:
        self.now_s = BEGIN_STEADY_S

    def steady_s(self, *_: object) -> float:
        """Return the time of any clock that does not follow the calendar."""
        return self.now_s

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        return BEGIN_WALL_S + self.now_s - BEGIN_STEADY_S

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


CLOCK = ScriptedClock()


def settle(*, whole: bool = True, uid: int = UID) -> None:
    """Replace clocks and chance; with `whole` users and ids of processes too, `uid` the user's."""
    gc.disable()
    gc.collect()
    random.seed(SEED)
    names: dict[str, Any] = {
        "monotonic": CLOCK.steady_s,
        "perf_counter": CLOCK.steady_s,
        "thread_time": CLOCK.steady_s,
        "process_time": CLOCK.steady_s,
        "clock_gettime": CLOCK.steady_s,
        "time": CLOCK.wall_s,
    }
    if whole:
        names["sleep"] = CLOCK.sleep
    for name, function in names.items():
        setattr(time, name, function)
    chance: Any = random.Random(SEED)
    replaced: list[tuple[Any, str, Any]] = [
        (secrets, "randbits", chance.getrandbits),
        (secrets, "token_hex", lambda count=32: chance.randbytes(count).hex()),
        (secrets, "token_bytes", lambda count=32: chance.randbytes(count)),
        (os, "urandom", chance.randbytes),
    ]
    if whole:
        entry = pwd.struct_passwd((USER, "x", uid, uid, "", "/home/ann", "/bin/sh"))
        members = grp.struct_group((GROUP, "x", uid, []))
        collector = SimpleNamespace(enable=_nothing, collect=_nothing, freeze=_nothing)
        replaced += [
            (pwd, "getpwuid", lambda _: entry),
            (pwd, "getpwnam", lambda _: entry),
            (grp, "getgrgid", lambda _: members),
            (grp, "getgrnam", lambda _: members),
            (os, "getgrouplist", lambda *_: [uid]),
            (os, "getpid", lambda: 1000),
            (os, "cpu_count", lambda: CPUS),
            (os, "sched_getaffinity", lambda _: set(range(CPUS))),
            *((gc, name, function) for name, function in vars(collector).items()),
        ]
    for module, name, function in replaced:
        setattr(module, name, function)


def become_user(directory: str, uid: int) -> None:
    """Stop to be root, for whom more is done, with `directory` as one's own."""
    if os.getuid() == 0:
        os.chown(directory, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def _nothing(*_: object) -> None:
    """Leave the collector off: when it runs depends on what ran before."""
