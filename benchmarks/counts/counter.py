"""Counts what product code does in this process: calls, opcodes, system calls.

Calls are those of Python functions, a generator that goes on included. Opcodes are instructions of
the interpreter: 3.11 tells them to a trace function, later versions to `sys.monitoring`. System
calls are calls of functions of Python's library that enter the kernel (`os`, sockets, files), once
each; those of SQLite are not seen, its statements and commits stand for them.

Not counted is code of the event loop, which is not the product's (uvloop is a compiled one), of the
import system, which depends on where Python is installed (imported modules are counted apart), of
threads' synchronisation and of benchmarks/ itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

FUNCTIONS = "IRIAI_GUARD_FUNCTIONS"
"""The environment variable that names the file for the counts of each function."""

# Nothing else is imported here: what a command imports is counted in a process that has this.
_LEFT_OUT_FILES = ("/asyncio/", "/selectors.py", "/threading.py")
_LEFT_OUT_FOLDER = __file__.removesuffix("counts/counter.py")
_BUILT_IN = type(len)
_NO_SYSTEM_CALLS = {"cpu_count", "device_encoding", "fspath", "get_inheritable", "major"} | {
    "makedev", "minor", "putenv", "register_at_fork", "strerror", "unsetenv",
    "waitstatus_to_exitcode",
}  # fmt: skip
_SOCKET = {"_accept", "accept", "bind", "close", "connect", "connect_ex", "getpeername"} | {
    "getsockname", "getsockopt", "listen", "recv", "recv_into", "recvmsg", "send", "sendall",
    "sendmsg", "setblocking", "setsockopt", "settimeout", "shutdown",
}  # fmt: skip
_FUNCTIONS: frozenset[object] = frozenset(
    {
        function
        for name, function in vars(sys.modules["posix"]).items()
        if type(function) is _BUILT_IN
        and name not in _NO_SYSTEM_CALLS
        and not name.startswith(("_", "W"))
    }
    | {open}
)
_METHODS = {
    ("socket", "socket"): _SOCKET,
    ("_socket", "socket"): _SOCKET,
    ("_io", "FileIO"): {"read", "readall", "readinto", "write", "close", "seek", "truncate"},
    ("select", "epoll"): {"poll", "register", "modify", "unregister", "close"},
    ("select", "poll"): {"poll"},
}
"""By module and name of the class."""


class Counter:
    """Counts from `on` to its end; `paused` leaves out what the script of a case does meanwhile."""

    def __init__(self) -> None:
        self.calls = 0
        self.opcodes = 0
        self.system_calls = 0
        self._is_on = False
        self._left_out: dict[int, tuple[bool, CodeType]] = {}
        """By identity, as a code's hash is computed anew each time."""
        self.functions: dict[str, dict[CodeType, list[int]]] = {}
        """Calls and opcodes of each function, by case; empty unless `FUNCTIONS` is set."""
        self._of_function: dict[CodeType, list[int]] | None = None

    @property
    def counts(self) -> dict[str, float]:
        """What was counted so far."""
        return {
            "calls": self.calls,
            "opcodes": self.opcodes,
            "system_calls": self.system_calls,
        }

    def on(self, label: str = "") -> _Within:
        """Return a context in which is counted: what the caller calls, not the caller's frame.

        `label` is the case, where functions are told apart.
        """
        if label and FUNCTIONS in os.environ:
            self._of_function = self.functions.setdefault(label, {})
        return _Within(self, is_on=True)

    def paused(self) -> _Within:
        """Return a context in which nothing is counted."""
        return _Within(self, is_on=False)

    def enter(self, *, is_on: bool) -> bool:
        """Count or not from here on; return what was before."""
        was_on, self._is_on = self._is_on, is_on
        return was_on

    def _call(self, code: CodeType) -> None:
        self.calls += 1
        if self._of_function is not None:
            self._of_function.setdefault(code, [0, 0])[0] += 1

    def _opcode(self, code: CodeType) -> None:
        self.opcodes += 1
        if self._of_function is not None:
            self._of_function.setdefault(code, [0, 0])[1] += 1

    def tell_functions(self) -> None:
        """Append to the file that `FUNCTIONS` names: case, function, calls, opcodes."""
        if FUNCTIONS not in os.environ:
            return
        with open(os.environ[FUNCTIONS], "a", encoding="utf-8") as file:
            for label, found in self.functions.items():
                for code, (calls, opcodes) in found.items():
                    place = f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"
                    file.write(f"{label}\t{place}\t{calls}\t{opcodes}\n")

    def _is_left_out(self, code: CodeType) -> bool:
        found = self._left_out.get(id(code))
        if found is not None:
            return found[0]
        name = code.co_filename
        is_left_out = name.startswith(("<frozen importlib", _LEFT_OUT_FOLDER)) or any(
            part in name for part in _LEFT_OUT_FILES
        )
        self._left_out[id(code)] = is_left_out, code
        return is_left_out

    if sys.version_info >= (3, 12):

        def watch_thread(self) -> None:
            """Begin in this thread; later threads are watched as well."""
            monitoring = sys.monitoring
            tool, events = monitoring.PROFILER_ID, monitoring.events
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "iriai-guard")
            monitoring.register_callback(tool, events.PY_START, self._begun)
            monitoring.register_callback(tool, events.PY_RESUME, self._begun)
            monitoring.register_callback(tool, events.INSTRUCTION, self._instruction)
            monitoring.register_callback(tool, events.CALL, self._called)
            monitoring.set_events(
                tool, events.PY_START | events.PY_RESUME | events.INSTRUCTION | events.CALL
            )

        def leave_thread(self) -> None:
            """End in this thread."""
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)

        def _begun(self, code: CodeType, _offset: int) -> object:
            if self._is_left_out(code):
                return sys.monitoring.DISABLE
            if self._is_on:
                self._call(code)
            return None

        def _instruction(self, code: CodeType, _offset: int) -> object:
            if self._is_left_out(code):
                return sys.monitoring.DISABLE
            if self._is_on:
                self._opcode(code)
            return None

        def _called(self, code: CodeType, _offset: int, function: object, first: object) -> object:
            if self._is_left_out(code):
                return sys.monitoring.DISABLE
            if self._is_on:
                owner = getattr(function, "__self__", first)
                self.system_calls += _enters_kernel(function, owner)
            return None

    else:

        def watch_thread(self) -> None:
            """Begin in this thread; each thread begins by itself."""
            sys.setprofile(self._profile)
            sys.settrace(self._trace)

        def leave_thread(self) -> None:
            """End in this thread."""
            sys.settrace(None)
            sys.setprofile(None)

        def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
            if self._is_left_out(frame.f_code):
                return None
            if self._is_on:
                self._call(frame.f_code)
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
            return self._step

        def _step(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "opcode" and self._is_on:
                self._opcode(frame.f_code)
            return self._step

        def _profile(self, frame: FrameType, event: str, function: object) -> None:
            if event != "c_call" or not self._is_on or self._is_left_out(frame.f_code):
                return
            self.system_calls += _enters_kernel(function, getattr(function, "__self__", None))


class _Within:
    """Counts, or does not, between begin and end of a block."""

    def __init__(self, counter: Counter, *, is_on: bool) -> None:
        self._counter = counter
        self._is_on = is_on
        self._was_on = False

    def __enter__(self) -> None:
        self._was_on = self._counter.enter(is_on=self._is_on)
        if self._is_on:
            self._counter.watch_thread()

    def __exit__(self, *_: object) -> None:
        if self._is_on:
            self._counter.leave_thread()
        self._counter.enter(is_on=self._was_on)


def _enters_kernel(function: object, owner: object) -> bool:
    kind = type(owner)
    names = _METHODS.get((kind.__module__, kind.__name__))
    if names is not None:
        return getattr(function, "__name__", "") in names
    return type(function) is _BUILT_IN and function in _FUNCTIONS
