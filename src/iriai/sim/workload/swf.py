"""The Standard Workload Format, version 2.2, of the Parallel Workloads Archive: in and out.

Feitelson, Tsafrir, Krakov: Experience with using the Parallel Workloads Archive, JPDC 74 (2014).
Conventions: a job's width is what it asked for (field 8), else what it got (5); its estimate is
field 9, its run time field 4; who handed it in are fields 12 and 13. The waiting time of the log
(3) is never used. A run ends at its estimate at the latest. What cannot be run is left out and
counted.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TextIO

from iriai.model.ids import Account
from iriai.model.problem import NotFound, UsageProblem
from iriai.sim.workload.log import Log, LogJob

FIELDS = 18
"""Numbers in a line."""
FIELDS_MIN = 13
"""Some tools leave the last ones out; what is read here ends with the group."""
LINE_BYTES_MAX = 1 << 16
"""A longer line is not of a log, and reading on would fill the memory."""
NUMBER_MAX = 1e12
"""30,000 years in seconds: sums and differences of such times are exact in a double."""
PROCESSORS_MAX = 1_000_000_000
"""A hundred times the largest machine there is."""
PARTS = frozenset({2, 3, 4})
"""Values of field 11: one of several executions of a job, which has a line of its own, too."""

_GZIP = b"\x1f\x8b"


class BadLog(UsageProblem):
    """The log cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__("bad-log", message, hint)


def read_swf(path: Path, processors: int | None = None, *, perfect_estimates: bool = False) -> Log:
    """Read the log in `path`, compressed or not; `processors` overrides its header.

    With `perfect_estimates` everybody knew how long each job would run (at most its estimate).

    Raises:
        BadLog: with the line, where one is to blame.
        NotFound: there is no such file.
    """
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if is_gzip else raw
            return _Reader(path.name, processors, perfect_estimates).log(stream)
    except FileNotFoundError:
        raise NotFound(
            "no-log", f"there is no file {path}", "give the path of an SWF log"
        ) from None
    except IsADirectoryError:
        raise BadLog(f"{path} is a directory", "give the path of an SWF log") from None


class _Reader:
    """A reader of one log file."""

    def __init__(self, name: str, processors: int | None, perfect_estimates: bool) -> None:
        self._name = name
        self._perfect_estimates = perfect_estimates
        self._processors = processors
        self._counts = Counter[str]()
        self._began_wall_s = 0.0
        self._accounts: dict[tuple[bytes, bytes], Account] = {}
        self._jobs: list[LogJob] = []
        self._line = 0

    def log(self, stream: BinaryIO) -> Log:
        """Read the whole file and return the log, in order."""
        for line in self._lines(stream):
            if line.startswith(b";"):
                self._header(line)
            elif line and not line.isspace():
                self._row(line)
        if not self._jobs:
            raise BadLog(
                f"{self._name} has no job that could be run{self._what_happened()}",
                f"each job is a line of {FIELDS} numbers",
            )
        assert self._processors is not None
        self._sort()
        return Log(self._name, self._processors, self._jobs, self._began_wall_s, self._counts)

    def _what_happened(self) -> str:
        return "".join(f"; {count} {what}" for what, count in self._counts.items())

    def _lines(self, stream: BinaryIO) -> Iterator[bytes]:
        try:
            while line := stream.readline(LINE_BYTES_MAX + 1):
                self._line += 1
                if len(line) > LINE_BYTES_MAX:
                    raise self._bad(
                        f"is longer than {LINE_BYTES_MAX} bytes",
                        "this does not look like a workload log",
                    )
                yield line
        except EOFError:
            raise BadLog(
                f"{self._name} is cut short after line {self._line}", "fetch or compress it again"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise BadLog(
                f"{self._name} is damaged after line {self._line} ({error})",
                "fetch or compress it again",
            ) from None

    def _bad(self, what: str, hint: str) -> BadLog:
        return BadLog(f"{self._name}, line {self._line}, {what}", hint)

    def _header(self, line: bytes) -> None:
        label, colon, value = line.lstrip(b"; \t").partition(b":")
        if not colon:
            return
        label = label.strip().lower()
        if label == b"maxprocs" and self._processors is None:
            self._processors = self._header_number(value, 1, PROCESSORS_MAX)
        elif label == b"unixstarttime":
            self._began_wall_s = float(self._header_number(value, 0, int(NUMBER_MAX)) or 0)

    def _header_number(self, value: bytes, low: int, high: int) -> int | None:
        """Return the number in a header; None below `low`, which means unknown."""
        words = value.split()
        try:
            number = int(words[0])
        except (ValueError, IndexError):
            raise self._bad(
                f"the header, has {_quoted(value.strip())}", f"write a whole number up to {high}"
            ) from None
        if number > high:
            raise self._bad(f"the header, has {number}", f"write a number up to {high}")
        return number if number >= low else None

    def _row(self, line: bytes) -> None:
        words = line.split()
        if len(words) < FIELDS_MIN:
            raise self._bad(f"has {len(words)} fields", f"each job is a line of {FIELDS} numbers")
        if self._processors is None:
            raise BadLog(
                f"{self._name} does not give the number of processors before its first job, in "
                f"line {self._line}",
                "use --processors N, or add a header line '; MaxProcs: N'",
            )
        try:
            number, submit_s, run_s = int(words[0]), _number(words[1]), _number(words[3])
            got, asked, estimate_s = int(words[4]), int(words[7]), _number(words[8])
            status = int(words[10])
        except ValueError:
            raise self._bad(
                f"has a field that is not a number: {_quoted(_first_wrong(words))}",
                f"each job is a line of {FIELDS} numbers",
            ) from None
        if max(number, submit_s, run_s, got, asked, estimate_s) > NUMBER_MAX:
            raise self._bad("has a number out of range", f"numbers go up to {NUMBER_MAX:.0e}")
        width = asked if asked > 0 else got
        if self._perfect_estimates and estimate_s <= 0:
            estimate_s = run_s
        why = self._why_not(status, width, run_s, estimate_s, submit_s)
        if why:
            self._counts[why] += 1
            return
        if asked > 0 and got not in (asked, -1):
            self._counts["got another width than asked"] += 1
        if run_s > estimate_s:
            self._counts["cut at the estimate"] += 1
            run_s = estimate_s
        if self._perfect_estimates:
            estimate_s = run_s
        account = self._account(words[12], words[11])
        self._jobs.append(LogJob(number, submit_s, run_s, width, estimate_s, account))

    def _why_not(
        self, status: int, width: int, run_s: float, estimate_s: float, submit_s: float
    ) -> str:
        assert self._processors is not None
        if status in PARTS:
            return "left out: part of a job that has its own line"
        if width <= 0:
            return "left out: without a width"
        if width > self._processors:
            return "left out: wider than the machine"
        if run_s <= 0:
            return "left out: did not run"
        if estimate_s <= 0:
            return "left out: without an estimate"
        if submit_s < 0:
            return "left out: submitted before the log begins"
        return ""

    def _account(self, group: bytes, user: bytes) -> Account:
        """Return the account of two numbers: g3/u12; -1 (unknown) gives g-1/u-1."""
        account = self._accounts.get((group, user))
        if account is None:
            try:
                names = f"g{int(group)}", f"u{int(user)}"
            except ValueError:
                raise self._bad(
                    f"has a user or group that is not a number: {_quoted(user)}, {_quoted(group)}",
                    "write whole numbers, -1 for unknown ones",
                ) from None
            account = self._accounts[group, user] = Account(*names)
        return account

    def _sort(self) -> None:
        jobs = self._jobs
        late = sum(job.submit_s < before.submit_s for before, job in pairwise(jobs))
        if late:
            self._counts["out of order"] = late
        jobs.sort(key=lambda job: (job.submit_s, job.number))
        [(number, count)] = Counter(job.number for job in jobs).most_common(1)
        if count > 1:
            raise BadLog(
                f"{self._name} has more than one job {number}", "number the jobs again, each once"
            )


def _number(word: bytes) -> float:
    """Parse a finite number; whole seconds stay whole, so they are written as they were read."""
    try:
        return int(word)
    except ValueError:
        value = float(word)
        if value != value or value in (float("inf"), float("-inf")):
            raise
        return value


def _first_wrong(words: list[bytes]) -> bytes:
    for place in (0, 1, 3, 4, 7, 8, 10):
        try:
            _number(words[place])
        except ValueError:
            return words[place]
    return next(words[place] for place in (0, 4, 7, 10) if not words[place].lstrip(b"-").isdigit())


def _quoted(value: bytes) -> str:
    return repr(value[:40].decode("latin-1"))


def write_swf(log: Log, stream: TextIO) -> None:
    """Write `log` so that `read_swf` returns it; unknown fields are -1."""
    stream.write("; Version: 2.2\n")
    stream.write(f"; Computer: {log.name}\n")
    stream.write(f"; MaxJobs: {len(log.jobs)}\n; MaxRecords: {len(log.jobs)}\n")
    if log.began_wall_s:
        stream.write(f"; UnixStartTime: {log.began_wall_s:.0f}\n")
    stream.write(f"; MaxNodes: {log.processors}\n; MaxProcs: {log.processors}\n")
    groups: dict[str, int] = {}
    users: dict[str, int] = {}
    for job in log.jobs:
        group = _number_of(job.account.group, "g", groups)
        user = _number_of(job.account.user, "u", users)
        stream.write(
            f"{job.number} {job.submit_s} -1 {job.run_s} {job.width} -1 -1 {job.width} "
            f"{job.estimate_s} -1 1 {user} {group} -1 -1 -1 -1 -1\n"
        )


def _number_of(name: str, letter: str, known: dict[str, int]) -> int:
    """Return the number in a name, else the next free one of its kind."""
    if name.startswith(letter) and name[1:].removeprefix("-").isdigit():
        return int(name[1:])
    return known.setdefault(name, len(known) + 1)
