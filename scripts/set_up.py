"""Makes .venv and installs iriai into it; used by the Makefile, with nothing but Python >= 3.11.

Nothing is done again while pyproject.toml, the build hook, the Python and the place are the same:
a stamp in .venv holds their digest and the extras that were installed.

    python3 scripts/set_up.py [--extra NAME]... [--packages FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "iriai-installed"
LOG = ENVIRONMENT / "iriai-install.log"
LOG_LINES_SHOWN = 15
"""Of a failed installation: enough for pip's reason, few enough to stay on the screen."""
STATUS_WIDTH = 70
# Settings of the person's shell that would lead Python or pip out of .venv.
MISLEADING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")


class SetUpError(Exception):
    """Set-up cannot go on; the message says what to do."""


def clean_environment() -> dict[str, str]:
    """Return the process environment without what would lead out of .venv."""
    kept = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    return kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def digest() -> str:
    """Return what the installation depends on, as one word."""
    state = hashlib.sha256(f"{ROOT} {sys.version}".encode())
    for name in ("pyproject.toml", "hatch_build.py", "scripts/set_up.py"):
        state.update((ROOT / name).read_bytes())
    return state.hexdigest()


def installed_extras() -> set[str] | None:
    """Return the extras that .venv holds, or None where it is missing or out of date."""
    if not STAMP.exists() or not (ENVIRONMENT / "bin" / "python").exists():
        return None
    known, *extras = STAMP.read_text().split()
    return set(extras) if known == digest() else None


def run_as_status(command: list[str]) -> int:
    """Run a command; its output goes to the log, its current line to a terminal. Exit code."""
    terminal = sys.stderr.isatty()
    with (
        LOG.open("w") as log,
        subprocess.Popen(
            command,
            env=clean_environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            if terminal:
                shown = line.strip()[:STATUS_WIDTH]
                print(f"\r  {shown:<{STATUS_WIDTH}}", end="", file=sys.stderr, flush=True)
    if terminal:
        print(f"\r{'':<{STATUS_WIDTH + 2}}\r", end="", file=sys.stderr, flush=True)
    return process.returncode


def install_debian(packages: list[str]) -> None:
    """Install Debian packages, or say what the person has to do."""
    names = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetUpError(
            f"these Debian packages are missing: {names}\n"
            f"Install them (sudo apt-get install {names}) and try again."
        )
    print(f"Installing Debian packages: {names}", file=sys.stderr)
    quiet = clean_environment() | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        command = ["apt-get", "--quiet=2", *arguments]
        outcome = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, check=False)
        if outcome.returncode != 0:
            raise SetUpError(f"`{' '.join(command)}` failed with {outcome.returncode}")


def missing_packages(listing: Path) -> list[str]:
    """Return the packages of the list whose sign (a command or a path) is not there."""
    missing = []
    for line in listing.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and not (Path(words[1]).exists() if "/" in words[1] else shutil.which(words[1])):
            missing.append(words[0])
    return missing


def create_environment() -> None:
    """Make an empty .venv with pip; Debian keeps the module that does it in a package."""
    command = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)]
    print(f"Making {ENVIRONMENT} with Python {sys.version.split()[0]}", file=sys.stderr)
    outcome = subprocess.run(command, env=clean_environment(), capture_output=True, check=False)
    if outcome.returncode != 0 and "ensurepip" in (outcome.stdout + outcome.stderr).decode():
        install_debian([f"python{sys.version_info.major}.{sys.version_info.minor}-venv"])
        outcome = subprocess.run(command, env=clean_environment(), capture_output=True, check=False)
    if outcome.returncode != 0:
        reason = (outcome.stderr or outcome.stdout).decode().strip()
        raise SetUpError(f"`{' '.join(command)}` failed: {reason}")


def install_iriai(extras: set[str]) -> None:
    """Install iriai into .venv in editable form, with these extras, and stamp it."""
    listed = f"[{','.join(sorted(extras))}]" if extras else ""
    print(f"Installing iriai{listed} and its libraries", file=sys.stderr)
    began_s = time.monotonic()
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--editable", f".{listed}"]
    if run_as_status(pip) != 0:
        tail = "\n".join(LOG.read_text().splitlines()[-LOG_LINES_SHOWN:])
        raise SetUpError(f"pip failed; the whole story is in {LOG}, its end is:\n{tail}")
    STAMP.write_text(" ".join([digest(), *sorted(extras)]) + "\n")
    print(f"Installed in {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def set_up(extras: set[str], listing: Path | None) -> None:
    """Bring .venv and, where a list is given, the Debian packages up to date."""
    if listing is not None and (missing := missing_packages(listing)):
        install_debian(missing)
    present = installed_extras()
    if present is None:
        create_environment()
    if present is None or not extras <= present:
        install_iriai(extras | (present or set()))


def main() -> int:
    """Read the arguments and set up. Returns the exit code: 0, or 1 with the reason shown."""
    parser = argparse.ArgumentParser(description="make .venv and install iriai into it")
    parser.add_argument("--extra", action="append", default=[], metavar="NAME")
    parser.add_argument("--packages", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    try:
        set_up(set(arguments.extra), arguments.packages)
    except SetUpError as problem:
        print(f"set-up: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
