"""iriai-exec in Python, for machines without a C compiler: the same arguments, the same reports.

Run as `python -I -S iriai_exec.py OPTIONS -- COMMAND`. It is slower (an interpreter is started for
each task) and else the same; iriai-exec.c describes both. It imports nothing of iriai.
"""

import contextlib
import errno
import fcntl
import os
import resource
import signal
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from typing import NoReturn

ARGUMENTS, SESSION, GROUP, PARENT, TERMINAL, LIMIT = range(1, 7)
USER, DIRECTORY, STDIN, STDOUT, STDERR, EXEC, NAMESPACE = range(7, 14)
"""The stages, as in spawn.py."""
BOUNDING_DROP, NO_NEW_PRIVILEGES, KEEP_CAPABILITIES, CAPABILITIES = 24, 38, 8, 64
TO_ENTER = 1 << 18 | 1 << 21
"""CAP_SYS_CHROOT and CAP_SYS_ADMIN."""
CAPABILITY_VERSION_3, MOUNT_NAMESPACE = 0x20080522, 0x20000
JOIN_SESSION_KEYRING = 1
KEYCTL = {"x86_64": 250, "i686": 288, "ppc64le": 271, "s390x": 280, "armv7l": 311}
KEYCTL_ELSEWHERE = 219
"""The number of keyctl(2), for which libraries have no name; newer machines have the last."""
PRIVATE = ("/tmp/", "/dev/shm/")  # noqa: S108 - where mount namespaces have their own
IOPRIO_SET = {"x86_64": 251, "i686": 289, "ppc64le": 273, "s390x": 282, "armv7l": 314}
IOPRIO_SET_ELSEWHERE = 30
OWN_PROCESS, IDLE_CLASS = 1, 3 << 13
TASK_UMASK = 0o022
FILE_MODE = 0o666
EXIT_NOT_RUN = 126
SHELL = b"/bin/sh"
PATH_DEFAULT = b"/usr/local/bin:/usr/bin:/bin"


class Failed(Exception):
    """A step failed, with an error number."""

    def __init__(self, stage: int, error: int) -> None:
        super().__init__(stage, error)
        self.stage = stage
        self.error = error


@contextlib.contextmanager
def step(stage: int) -> Iterator[None]:
    """Turn an OSError into the failure of `stage`."""
    try:
        yield
    except OSError as error:
        raise Failed(stage, error.errno or errno.EIO) from None
    except (ValueError, OverflowError):
        raise Failed(stage, errno.EINVAL) from None


def main() -> NoReturn:
    """Become the task, or report why that failed."""
    options = sys.argv[1:]
    report_fd = next((int(each[2:]) for each in options if each.startswith("r=")), -1)
    if report_fd >= 0:
        os.set_inheritable(report_fd, False)
    try:
        become_task(options)
    except Failed as failed:
        if report_fd >= 0:
            os.write(report_fd, struct.pack("=iii", os.getpid(), failed.stage, failed.error))
        os._exit(EXIT_NOT_RUN)


def become_task(options: list[str]) -> NoReturn:
    """Follow `options`, in the order of iriai-exec.c."""
    if "--" not in options or options[-1] == "--":
        raise Failed(ARGUMENTS, errno.EINVAL)
    first = options.index("--")
    command = [os.fsencode(each) for each in options[first + 1 :]]
    given = [(each[0], each[2:]) for each in options[:first]]
    single = dict(given)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    reset_signals()
    with step(SESSION):
        os.setsid()
    with step(GROUP):
        for path in (value for letter, value in given if letter == "g"):
            write_membership(path)
    if "p" in single and os.getppid() != int(single["p"]):
        raise Failed(PARENT, errno.ESRCH)
    if "b" in single:
        give_way(single["b"])
    if "h" in single:
        os.kill(os.getpid(), signal.SIGSTOP)
    if "t" in single:
        with step(TERMINAL):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    with step(LIMIT):
        for text in (value for letter, value in given if letter == "l"):
            number, soft, hard = map(int, text.split(":"))
            resource.setrlimit(number, (soft, hard))
    if "a" in single:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, map(int, single["a"].split(",")))
    os.umask(TASK_UMASK)
    become(single)
    close_others_on_exec()
    if "f" in single:
        os.set_inheritable(int(single["f"]), True)
    if "w" in single:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        while True:
            signal.pause()
    environment = {name[1:]: value for name, value in os.environb.items() if name.startswith(b":")}
    if "x" in single or b"/" in command[0]:
        program = os.fsencode(single.get("x", "")) or command[0]
        raise Failed(EXEC, execute(program, command, environment))
    raise Failed(EXEC, search(command, environment))


def reset_signals() -> None:
    """Set every signal to its default, and block none."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def write_membership(path: str) -> None:
    """Join one control group."""
    write_text(path, "0")


def give_way(nice: str) -> None:
    """Be the last to be served by a disk, and the first to be ended where memory is short.

    With `nice`, the session has that nice value among sessions.
    """
    with contextlib.suppress(OSError):
        number = IOPRIO_SET.get(os.uname().machine, IOPRIO_SET_ELSEWHERE)
        kernel_call("syscall", number, OWN_PROCESS, 0, IDLE_CLASS)
    for name, text in (("oom_score_adj", "1000"), ("autogroup", nice)):
        with contextlib.suppress(OSError):
            if text:
                write_text(f"/proc/self/{name}", text)


def write_text(path: str, text: str) -> None:
    """Write to a file that is there."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode())


def become(single: dict[str, str]) -> None:
    """Become the user, in the working directory, with the task's files open."""
    with step(USER):
        if "u" in single:
            change_user(single)
        if "n" in single:
            kernel_call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    enter_directory(single)
    if not ("u" in single and "m" in single):
        open_files(single)


def change_user(single: dict[str, str]) -> None:
    """Drop to user, group and supplementary groups, and to no capability, for good with n=.

    Root keeps its capabilities without n=.
    """
    leave_session_keyring()
    uid, gid, groups = single["u"].split(":")
    os.setgroups([int(each) for each in groups.split(",") if each])
    os.setresgid(int(gid), int(gid), int(gid))
    if "n" in single:
        with contextlib.suppress(OSError):  # the kernel has no more, or root itself may not
            for each in range(CAPABILITIES):
                kernel_call("prctl", BOUNDING_DROP, each, 0, 0, 0)
    if "m" in single:
        enter_namespace(single, int(uid))
    else:
        os.setresuid(int(uid), int(uid), int(uid))
    if int(uid) or "n" in single:
        hold_capabilities(permitted=0, effective=0)


def leave_session_keyring() -> None:
    """Join a new session keyring, without the keys of the launcher's session."""
    try:
        number = KEYCTL.get(os.uname().machine, KEYCTL_ELSEWHERE)
        kernel_call("syscall", number, JOIN_SESSION_KEYRING, 0)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES):
            raise


def enter_namespace(single: dict[str, str], uid: int) -> None:
    """Become the user, open the task's files outside, then enter the mount namespace.

    A file system that the user serves (FUSE) admits a process only if its real, effective and saved
    user are that user. So the two of root's capabilities that entering takes are kept, and not in
    effect. If the working directory is not in the namespace, the task stays in the machine's.
    """
    kernel_call("prctl", KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setresuid(uid, uid, uid)
    if uid:
        hold_capabilities(permitted=TO_ENTER, effective=0)
    enter_directory(single)
    open_files(single)
    if is_hidden(single.get("d", "")):
        return
    if uid:
        hold_capabilities(permitted=TO_ENTER, effective=TO_ENTER)
    with step(NAMESPACE):
        kernel_call("setns", int(single["m"]), MOUNT_NAMESPACE)


def hold_capabilities(*, permitted: int, effective: int) -> None:
    """Keep these capabilities; clear the inheritable set, and with it the ambient one."""
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    kernel_call("capset", header, struct.pack("=6I", effective, permitted, 0, 0, 0, 0))


def is_hidden(directory: str) -> bool:
    """Return whether a link led below a private place, by an entry that is not in the name."""
    try:
        found = os.getcwd()
    except OSError:
        return False
    for place in PRIVATE:
        if found.startswith(place):
            entry = place + found.removeprefix(place).partition("/")[0]
            return directory != entry and not directory.startswith(f"{entry}/")
    return False


def enter_directory(single: dict[str, str]) -> None:
    """Change to the working directory."""
    if "d" in single:
        with step(DIRECTORY):
            os.chdir(single["d"])


def kernel_call(name: str, *values: int | bytes) -> None:
    """Call a system call that Python's library lacks. Raises OSError."""
    import ctypes

    passed = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in values]
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*passed) < 0:
        raise OSError(ctypes.get_errno(), name)


def open_files(single: dict[str, str]) -> None:
    """Open standard input, output and error as the user."""
    if "i" in single:
        open_as(0, single["i"], os.O_RDONLY, STDIN)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    if "k" in single:
        if "e" in single:
            open_as(2, single["e"], flags, STDERR)
        return
    open_as(1, single.get("o", os.devnull), flags, STDOUT)
    if "e" in single:
        open_as(2, single["e"], flags, STDERR)
    else:
        with step(STDERR):
            os.dup2(1, 2)


def open_as(target: int, path: str, flags: int, stage: int) -> None:
    """Open `path` as descriptor `target`, which the task inherits."""
    with step(stage):
        fd = os.open(path, flags | os.O_NOCTTY, FILE_MODE)
        os.dup2(fd, target)
        if fd != target:
            os.close(fd)


def close_others_on_exec() -> None:
    """Make the task begin with 0, 1 and 2 open and nothing else."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing is closed already
                os.set_inheritable(int(name), False)


def execute(path: bytes, command: list[bytes], environment: dict[bytes, bytes]) -> int:
    """Execute `path`; return the error number. A text without #! is given to the shell."""
    run: Callable[..., object] = os.execve
    for program, words in ((path, command), (SHELL, [SHELL, path, *command[1:]])):
        try:
            run(program, words, environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                return error.errno or errno.EIO
        except ValueError:
            return errno.EINVAL
    return errno.ENOEXEC


def search(command: list[bytes], environment: dict[bytes, bytes]) -> int:
    """Execute the first match in PATH; the error EACCES outranks ENOENT."""
    result = errno.ENOENT
    for directory in environment.get(b"PATH", PATH_DEFAULT).split(b":"):
        error = execute((directory or b".") + b"/" + command[0], command, environment)
        is_worse = error not in (errno.ENOENT, errno.ENOTDIR) and result == errno.ENOENT
        if error == errno.EACCES or is_worse:
            result = error
    return result


if __name__ == "__main__":
    main()
