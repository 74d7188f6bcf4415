"""The supervisor: a small process that restarts launcher and daemon when they die.

`python -m iriai.supervisor.supervisor DIR DAEMON_UID MINIMUM_UID RUNS MODE RC`, RUNS `launcher`,
or `no-launcher` for a machine that runs nothing, MODE `detached` or `foreground`, RC the rc file of
the first daemon, empty for that in DIR; started by `iriai up` after everything was checked. It
imports little, since it stays. SIGTERM, SIGINT and SIGHUP: end the daemon, leave the launcher and
its tasks, exit. SIGUSR1: try now what is waiting to be tried again. When it is killed itself,
launcher and daemon go on, and the next `iriai up` finds and watches them.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from iriai.model.paths import StatePaths
from iriai.model.problem import ExitCode, Problem
from iriai.model.units import line_of
from iriai.state.log_rotation import LOOK_S, LogRotation
from iriai.state.outage import OutageRecord
from iriai.supervisor.children import Child, DaemonChild, LauncherChild
from iriai.system.exit_report import ExitReport, announce, ending_of, open_ending
from iriai.system.lock_file import LockHeld, adopt_holder, lock_holder, take_lock
from iriai.system.restart_backoff import DELAY_MAX_S
from iriai.system.standard_descriptors import keep_standard_descriptors

FIRST_TRIES = 3
"""A part that fails so often right after its first start will not start at the fourth try."""
STOP_WAIT_S = 20.0
"""How long a daemon that was asked to end may take before it is killed; what it has accepted is
durable."""


class Plan(NamedTuple):
    """The settings of the supervisor."""

    paths: StatePaths
    launcher: list[str]
    """The command that starts it; empty: none is wanted."""
    daemon: list[str]
    rc: str = ""
    """The rc file that the daemon of this start runs; empty: that of the state directory."""
    daemon_uid: int = -1
    """The user that the daemon runs as, who owns its log."""
    foreground: bool = False
    """Whether problems are also written to standard error, which is a terminal."""


class Supervisor:
    """Watches both parts until the end is requested, or they cannot be started at all."""

    def __init__(self, plan: Plan, report_fd: int) -> None:
        self._plan = plan
        self._report_fd = report_fd
        self._daemon = DaemonChild(plan.daemon, plan.paths, plan.rc)
        # The daemon last: it connects to its launcher at once.
        self._parts: list[Child] = [self._daemon]
        if plan.launcher:
            self._parts.insert(0, LauncherChild(plan.launcher, plan.paths))
        self._logs = LogRotation(plan.paths, plan.daemon_uid)
        self._outage = OutageRecord(plan.paths)
        self._logs_at_s = 0.0
        """When logs are checked again, on the steady clock."""
        self._report: ExitReport | None = None
        self._stop_by_s: float | None = None
        """When the daemon is killed, while it is to end."""
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> ExitReport:
        """Supervise until the end; return why it ended."""
        self._catch_signals()
        self._logs.prepare()
        while self._report is None:
            now_s = time.monotonic()
            if now_s >= self._logs_at_s:
                self._logs_at_s = now_s + LOOK_S
                self._logs.rotate_due()
            for part in self._parts:
                if part.due_s is not None and now_s >= part.due_s:
                    self._start(part, now_s)
            if self._report is None:
                self._wait(now_s)
                self._reap(time.monotonic())
                self._note_recovery()
        if self._report.exit_code != ExitCode.DONE:
            self._end_what_is_new()
            return self._report
        self._outage.over()
        if not self._report.kill:
            self._log("the launcher and its tasks go on", on_terminal=True)
        return self._report

    def _note_recovery(self) -> None:
        """End the outage once a daemon serves; checked as often as this supervisor wakes."""
        if self._outage.is_open and self._daemon.process and self._daemon.left_a_mark():
            self._outage.over()

    def _start(self, part: Child, now_s: float) -> None:
        try:
            self._log(part.find_or_start(now_s))
        except OSError as error:
            if not os.path.isdir(self._plan.paths.directory):
                self._report = ending_of(_directory_gone(self._plan.paths))
                return
            line = f"{part.name} cannot be started: {error}; next try in {DELAY_MAX_S:.0f} s"
            self._log(line, on_terminal=True)
            part.due_s = now_s + DELAY_MAX_S
            if part is self._daemon:
                self._outage.failed(None, DELAY_MAX_S, has_served=False)

    def _catch_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda _number, _frame: None)

    def _wait(self, now_s: float) -> None:
        """Wait until a process ends, a signal arrives, or something is due."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        for part in self._parts:
            if part.process is not None:
                poll.register(part.process.descriptor, select.POLLIN)
        moments = [*(part.due_s for part in self._parts), self._stop_by_s, self._logs_at_s]
        waits_s = [max(moment - now_s, 0.0) for moment in moments if moment is not None]
        poll.poll(min(waits_s) * 1000 + 1 if waits_s else None)
        try:
            caught = os.read(self._wake_read, 64)
        except BlockingIOError:
            caught = b""
        for number in caught:
            self._handle_signal(signal.Signals(number))
        if self._stop_by_s is not None and time.monotonic() >= self._stop_by_s:
            self._kill_daemon()

    def _handle_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGUSR1:
            for part in self._parts:
                part.back_off.forget()
                if part.due_s is not None:
                    part.due_s = 0.0
        elif self._daemon.process is None:
            self._report = ExitReport(ExitCode.DONE)
        elif self._stop_by_s is None:
            self._log(f"{number.name}: ending the daemon", on_terminal=True)
            announce(self._report_fd, ExitReport(ExitCode.DONE))
            self._stop_by_s = time.monotonic() + STOP_WAIT_S
            self._daemon.process.send(signal.SIGTERM)
        elif number is signal.SIGINT:
            self._kill_daemon()

    def _kill_daemon(self) -> None:
        self._log("killing the daemon, which did not end", on_terminal=True)
        self._stop_by_s = None
        if self._daemon.process is not None:
            self._daemon.process.send(signal.SIGKILL)
        self._report = ExitReport(ExitCode.DONE)

    def _reap(self, now_s: float) -> None:
        # The daemon first: its report tells whether the launcher's end was requested.
        for part in reversed(self._parts):
            if part.process is None or not part.process.ended():
                continue
            lived_s, code = part.reap(part.process, now_s)
            report = self._daemon.exit_report()
            if part is self._daemon:
                self._daemon_ended(report, lived_s, code)
            elif report is not None and report.kill:
                self._log("launcher ended, as requested")
            else:
                self._died(part, lived_s, code)

    def _daemon_ended(self, report: ExitReport | None, lived_s: float, code: int | None) -> None:
        daemon = self._daemon
        if self._stop_by_s is not None:
            self._report = ExitReport(ExitCode.DONE)
        elif report is None:
            self._died(daemon, lived_s, code)
        elif report.again:
            self._log("daemon ended, to restart")
            daemon.due_s = time.monotonic()
        elif report.exit_code == ExitCode.DONE:
            self._log("daemon ended, as requested")
            self._report = report
        elif daemon.has_worked:
            # It worked before: the cause may pass (a full disk), and no user waits for the start.
            line = f"daemon cannot start: {report.problem()}; next try in {DELAY_MAX_S:.0f} s"
            self._log(line, on_terminal=True)
            daemon.due_s = time.monotonic() + DELAY_MAX_S
            self._outage.failed(code, DELAY_MAX_S, has_served=daemon.left_a_mark())
        else:
            self._report = report

    def _died(self, part: Child, lived_s: float, code: int | None) -> None:
        now_s = time.monotonic()
        killed = code is None or code == -signal.SIGKILL
        delay_s = part.back_off.delay_s(lived_s, killed=killed)
        how = _describe_end(code)
        if self._is_new(part) and part.back_off.failures >= FIRST_TRIES:
            self._report = ending_of(
                Problem(
                    f"{part.name}-does-not-start",
                    f"the {part.name} does not start: {how}, {FIRST_TRIES} times in a row",
                    f"its last line: {part.last_line()} (in {part.log})",
                )
            )
            return
        line = f"{part.name} died ({how}) after {lived_s:.1f} s; next start in {delay_s:.1f} s"
        self._log(line, on_terminal=True)
        part.due_s = now_s + delay_s
        if part is self._daemon:
            self._outage.failed(code, delay_s, has_served=part.left_a_mark())

    def _is_new(self, part: Child) -> bool:
        """Return whether neither `part` nor the daemon ever worked."""
        return not (part.has_worked or self._daemon.has_worked)

    def _end_what_is_new(self) -> None:
        """End what this supervisor started, after a failed start; adopted processes stay."""
        if self._daemon.has_worked:
            return
        for part in reversed(self._parts):
            process = part.process
            if process is None or not process.child:
                continue
            process.send(signal.SIGTERM)
            if not process.ended(STOP_WAIT_S):
                process.send(signal.SIGKILL)
            process.exit_code()

    def _log(self, line: str, *, on_terminal: bool = False) -> None:
        """Append `line` to the log; with `on_terminal`, write it to a terminal too."""
        stamped = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line_of(line)}\n"
        # With a full log or a closed terminal the line is lost.
        with suppress(OSError), open(self._plan.paths.log_of("supervisor"), "a") as log:
            log.write(stamped)
        if on_terminal and self._plan.foreground:
            with suppress(OSError):
                sys.stderr.write(stamped)


def _directory_gone(paths: StatePaths) -> Problem:
    return Problem(
        "state-gone",
        f"{paths.directory} was removed while it was in use",
        "nothing is left to supervise; 'iriai up' starts again",
    )


def _describe_end(code: int | None) -> str:
    if code is None:
        return "the cause is unknown"
    if code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"exit code {code}"


def retry_now(paths: StatePaths) -> bool:
    """Make the running supervisor retry at once what it would retry later.

    Returns False if no supervisor runs.
    """
    process = adopt_holder(paths.lock("supervisor"))
    if process is None:
        return False
    process.send(signal.SIGUSR1)
    os.close(process.descriptor)
    return True


def plan_for(
    paths: StatePaths, daemon_uid: str, minimum_uid: str, runs: str, mode: str, rc: str
) -> Plan:
    """Return the commands of launcher and daemon for one state directory."""
    python = [sys.executable, "-P", "-m"]
    launcher = []
    if runs == "launcher":
        launcher = [*python, "iriai.launcher", "--state", paths.directory]
        launcher += ["--socket", paths.launcher_socket]
        launcher += ["--daemon-uid", daemon_uid, "--minimum-uid", minimum_uid]
    daemon = [*python, "iriai.daemon", "--state", paths.directory]
    return Plan(paths, launcher, daemon, rc, int(daemon_uid), mode == "foreground")


def supervise(plan: Plan) -> int:
    """Supervise the state directory of `plan`, once per directory; return the exit code."""
    paths = plan.paths
    try:
        lock = take_lock(paths.lock("supervisor"))
    except LockHeld as held:
        # Someone else's `iriai up` was faster; both wait for the same daemon.
        sys.stderr.write(f"supervised by process {held.pid} already\n")
        return ExitCode.DONE
    report_fd = open_ending(paths.end("supervisor"))
    report = Supervisor(plan, report_fd).run()
    announce(report_fd, report)
    if report.exit_code != ExitCode.DONE:
        sys.stderr.write(f"iriai: {report.problem()}\n")
    if lock_holder(paths.lock("daemon")) is None:
        with suppress(FileNotFoundError):
            os.unlink(paths.daemon_socket)
    os.close(lock)
    return report.exit_code


def main(arguments: Sequence[str]) -> int:
    """Supervise one state directory; returns the exit code."""
    keep_standard_descriptors()
    directory, *words = arguments
    plan = plan_for(StatePaths(directory), *words)
    os.chdir("/")
    return supervise(plan)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
