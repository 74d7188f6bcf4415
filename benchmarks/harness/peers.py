"""Running the peer programs of benchmarks/peers/ in an environment of their own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.descendants import none_left
from harness.kept_folder import kept_folder
from harness.report import as_number, last_line, median, progress, read_answer

PROGRAMS = Path(__file__).resolve().parent.parent / "peers"
REQUIREMENTS = PROGRAMS / "requirements.txt"
RUN_S_MAX = 120.0
"""A peer that takes longer hangs: the slowest needs 25 s for its 10,000 tasks on two processors."""
_MADE = "complete"
"""Name of the file that marks an environment as fully installed."""


@dataclass(frozen=True)
class Peer:
    """One way to run tasks with another system."""

    name: str
    program: str
    options: tuple[str, ...] = ()

    def command(self, python: Path, measure: str, tasks: int) -> list[str]:
        """Return the command that measures `measure` with `tasks` tasks."""
        alone = [str(python), str(PROGRAMS / "loopback_only.py")]
        program = [str(python), str(PROGRAMS / self.program), measure, "--tasks", str(tasks)]
        return [*alone, *program, *self.options]


RAY_TASKS = Peer("ray_tasks", "measure_ray.py", ("--way", "tasks"))
RAY_ACTORS = Peer("ray_actors", "measure_ray.py", ("--way", "actors"))
DASK = Peer("dask", "measure_dask.py")
HYPERQUEUE = Peer("hyperqueue", "measure_hyperqueue.py")
TASK_SPOOLER = Peer("task_spooler", "measure_task_spooler.py")

ACCASIM = Peer("accasim_easy", "measure_accasim.py", ("--way", "easy"))

FOR_THROUGHPUT = (RAY_TASKS, RAY_ACTORS, DASK, HYPERQUEUE, TASK_SPOOLER)
FOR_LATENCY = (RAY_TASKS, RAY_ACTORS, TASK_SPOOLER)
FOR_SIMULATION = (ACCASIM,)


class PeerError(Exception):
    """A peer could not be measured; the message says why."""


def environment_folder() -> Path:
    """Return where the peers' environment lies: named after what it holds, in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    content = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return cache / "iriai" / f"peers-{content}"


def environment_python() -> Path:
    """Return the Python of the peers' environment, making the environment where it is missing.

    Raises:
        PeerError: it could not be made.
    """
    folder = environment_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _MADE).exists():
            return python
        progress(f"installing the peers into {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        _run_or_raise([sys.executable, "-m", "venv", str(folder)])
        _run_or_raise([str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)])
        (folder / _MADE).touch()
    return python


def _run_or_raise(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"{' '.join(command)}: {last_line(done.stderr or done.stdout)}")


def measure(
    peer: Peer, python: Path, kind: str, tasks: int, *, seconds_max: float = RUN_S_MAX
) -> dict[str, object]:
    """Run the program of `peer` once and return what it answered.

    Raises:
        PeerError: it failed, or took longer than `seconds_max`.
    """
    folder = str(kept_folder("peer-"))
    environment = {**os.environ, "TMPDIR": folder}
    # Another environment's settings must not lead the peer's Python astray.
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
        environment.pop(name, None)
    try:
        with none_left():
            done = subprocess.run(
                peer.command(python, kind, tasks),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds_max,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise PeerError(f"did not end within {seconds_max:.0f} s") from None
    if done.returncode:
        raise PeerError(last_line(done.stderr))
    return read_answer(done.stdout)


@dataclass
class PeerRuns:
    """All runs of a set of peers, one round after the other."""

    peers: tuple[Peer, ...]
    kind: str
    """throughput or latency."""
    tasks: int
    answers: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def round(self) -> None:
        """Measure each peer once more; a peer that failed once is not tried again."""
        for peer in self.peers:
            if peer.name in self.problems:
                continue
            progress(f"{self.kind} of {peer.name}")
            try:
                answer = measure(peer, environment_python(), self.kind, self.tasks)
            except PeerError as error:
                self.problems[peer.name] = str(error)
                progress(f"{peer.name} could not be measured: {error}")
            else:
                self.answers.setdefault(peer.name, []).append(answer)

    def result(self, *figures: str, digits: int = 1) -> dict[str, object]:
        """Return the medians of `figures` per peer with its settings, or why there are none."""
        rows: dict[str, object] = {}
        for peer in self.peers:
            row: dict[str, object] = {}
            answers = self.answers.get(peer.name, [])
            if answers:
                for name in figures:
                    row[name] = median([as_number(each[name]) for each in answers], digits)
                row |= {name: answers[0][name] for name in ("version", "tasks", "settings")}
                row["runs"] = len(answers)
            if peer.name in self.problems:
                # With figures: what ended the runs before all were done.
                row["problem" if answers else "unavailable"] = self.problems[peer.name]
            rows[peer.name] = row
        return rows

    def best_per_s(self) -> float | None:
        """Return the median rate of the fastest peer; None where none was measured."""
        rates = [
            statistics.median(as_number(each["per_s"]) for each in answers)
            for answers in self.answers.values()
        ]
        return max(rates, default=None)
