"""Whom tasks run as: as root a user who exists for the benchmark alone; else oneself."""

from __future__ import annotations

import atexit
import os
import pickle
import pwd
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

USER_VARIABLE = "IRIAI_BENCHMARK_USER"
"""Names the user, for the programs that a benchmark starts."""

_Result = TypeVar("_Result")


def task_user() -> pwd.struct_passwd:
    """Return the user that tasks run as; the first call by root makes one, until the end."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    name = os.environ.get(USER_VARIABLE)
    if name is None:
        name = os.environ[USER_VARIABLE] = f"iriaibench{os.getpid()}"
        subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
        atexit.register(_remove_user, name, os.getpid())
    return pwd.getpwnam(name)


def _remove_user(name: str, maker_pid: int) -> None:
    if os.getpid() == maker_pid:
        subprocess.run(["userdel", "--force", name], check=False, capture_output=True)


def make_folder(path: Path) -> Path:
    """Make a folder that belongs to the task user, and return its path."""
    path.mkdir()
    if os.geteuid() == 0:
        user = task_user()
        os.chown(path, user.pw_uid, user.pw_gid)
    return path


def as_task_user(work: Callable[[], _Result]) -> _Result:
    """Call `work` as the task user and return what it returned, which must be picklable.

    As root this happens in a child process, which must not import anything any more: root's Python
    may lie where others cannot read.

    Raises:
        RuntimeError: `work` failed; the child has written its traceback to standard error.
    """
    if os.geteuid() != 0:
        return work()
    user = task_user()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(work, writer, user)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the work of user {user.pw_name} failed")
    result: _Result = pickle.loads(content)
    return result


def _be_the_child(work: Callable[[], object], writer: int, user: pwd.struct_passwd) -> None:
    code = 1
    try:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        content = pickle.dumps(work())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(content)
        code = 0
    except BaseException:  # noqa: BLE001  # nothing may return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(code)
