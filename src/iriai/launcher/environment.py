"""The environment of a task, as the program between launcher and task takes it.

Each name carries a colon in front until the task begins (see iriai-exec.c), so that nothing the
user sets acts upon the privileged program.
"""

from __future__ import annotations

import os
from functools import lru_cache

import msgspec

from iriai.launcher.messages import Order
from iriai.launcher.users import Login
from iriai.model.batch_variables import is_reserved
from iriai.model.decoding import decoded

MARK = "IRIAI_MARK"
"""`LAUNCHER/ATTEMPT`: by it a later launcher finds what an earlier one left running."""
PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CACHED = 64
"""Environments kept decoded; those of an array's tasks are the same bytes."""

_decoder: msgspec.msgpack.Decoder[dict[str, str]] = msgspec.msgpack.Decoder(dict[str, str])


class BadEnvironment(ValueError):
    """The stored environment cannot be read."""


@lru_cache(_CACHED)
def _shared(environment: bytes, login: Login, cpus: int) -> dict[bytes, bytes]:
    try:
        given = decoded(_decoder, environment) if environment else {}
    except msgspec.MsgspecError as error:
        raise BadEnvironment(f"the stored environment cannot be read: {error}") from error
    defaults = {
        "HOME": login.home,
        "USER": login.name,
        "LOGNAME": login.name,
        "SHELL": login.shell or "/bin/sh",
        "PATH": PATH_DEFAULT,
        "OMP_NUM_THREADS": str(cpus),
    }
    ours = {"IRIAI_RANK": "0", "IRIAI_RANKS": "1", "IRIAI_CPUS": str(cpus)}
    kept = {name: value for name, value in given.items() if not is_reserved(name)}
    merged = defaults | kept | ours
    return {
        b":" + name.encode(errors="surrogateescape"): value.encode(errors="surrogateescape")
        for name, value in merged.items()
    }


def environment_of(
    order: Order, environment: bytes, login: Login, cpus: int, mark: str, tmp: str
) -> dict[bytes, bytes]:
    """What `order` is started with: the submitter's, defaults of the user, and what is ours.

    Reserved names of the submitter's are dropped. `mark` is the value of MARK, `tmp` the task's
    private directory. Raises `BadEnvironment`.
    """
    home, number, index, tries = order.attempt
    result = _shared(environment, login, cpus).copy()
    result[b":IRIAI_JOB_ID"] = b"%b-%d" % (home.encode(), number)
    result[b":IRIAI_TASK_ID"] = b"%d" % index
    result[b":IRIAI_ATTEMPT"] = b"%d" % tries
    result[b":" + MARK.encode()] = mark.encode()
    result[b":TMPDIR"] = os.fsencode(tmp)
    if order.gpu_ids:
        result[b":CUDA_VISIBLE_DEVICES"] = ",".join(map(str, order.gpu_ids)).encode()
    return result
