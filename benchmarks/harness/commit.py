"""A commit of iriai laid out in a directory of its own, with an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import count_calls, trace_moves
from harness.report import last_line, progress

HARNESS = Path(__file__).resolve().parent
ROOT = HARNESS.parent.parent
SET_UP_S_MAX = 900.0
HOOKS = {count_calls.VARIABLE: "count_calls", trace_moves.VARIABLE: "trace_moves"}
_MADE = "pair-complete"
_HOOK = "iriai-count-calls.pth"


class CommitProblem(Exception):
    """A commit that is not there or cannot be built; says why, and what to do."""


class Commit:
    """One commit with its environment, kept for the next time."""

    def __init__(self, revision: str) -> None:
        """Raises `CommitProblem` if there is none of that name."""
        try:
            self.name = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        except subprocess.CalledProcessError:
            raise CommitProblem(
                f"this repository has no commit {revision}: git log shows which there are"
            ) from None
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.directory = Path(cache) / "iriai" / "pair" / self.name
        self.python = self.directory / ".venv" / "bin" / "python"

    def lay_out(self) -> None:
        """Make directory and environment, where they are not there, with the hooks that count.

        Raises `CommitProblem` if the commit cannot be built.
        """
        if not (self.directory / _MADE).exists():
            self._make()
        self._check()
        # Each time: the program that made it may have lain elsewhere, and be gone.
        hooks = "".join(
            f"import os, sys; os.environ.get({variable!r}) and "
            f"(sys.path.append({str(HARNESS)!r}), __import__({module!r}))\n"
            for variable, module in HOOKS.items()
        )
        [packages] = (self.directory / ".venv" / "lib").glob("python*/site-packages")
        (packages / _HOOK).write_text(hooks)

    def _make(self) -> None:
        progress(f"an environment for {self.name[:10]}")
        shutil.rmtree(self.directory, ignore_errors=True)  # of one that could not be built
        self.directory.mkdir(parents=True)
        _extract(self.name, self.directory)
        make = ["make", "-s", "-C", str(self.directory), "environment"]
        try:
            subprocess.run(make, stdout=sys.stderr, check=True, timeout=SET_UP_S_MAX)
        except (OSError, subprocess.SubprocessError) as error:
            raise CommitProblem(
                f"commit {self.name[:10]} cannot be built ({error}); what was said stands above: "
                "compare with another commit"
            ) from error
        (self.directory / _MADE).touch()

    def _check(self) -> None:
        """Raise `CommitProblem` unless the environment runs the iriai of this commit."""
        ask = [str(self.python), "-c", "import iriai.client; print(iriai.__file__)"]
        done = subprocess.run(ask, capture_output=True, text=True, check=False)
        place = (self.directory / ".venv").resolve().parent
        if done.returncode or not Path(done.stdout.strip()).is_relative_to(place):
            raise CommitProblem(
                f"the environment in {self.directory} does not run the iriai of commit "
                f"{self.name[:10]} but {last_line(done.stdout + done.stderr)}: remove the directory"
            )


@contextmanager
def source_of(revision: str) -> Iterator[Path]:
    """Lay out the source of a commit alone, which runs in the environment that is there.

    Raises `CommitProblem` if there is none of that name.
    """
    try:
        name = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        raise CommitProblem(f"this repository has no commit {revision}") from None
    with tempfile.TemporaryDirectory(prefix="iriai-commit-") as folder:
        _extract(name, Path(folder))
        yield Path(folder) / "src"


def _extract(name: str, folder: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        command = ["git", "-C", str(ROOT), "archive", name]
        subprocess.run(command, stdout=archive, check=True)
        archive.seek(0)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive, check=True)


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
