"""Makes .venv and installs iriai into it; used by the Makefile, with nothing but Python >= 3.11.

Nothing is done again while pyproject.toml, the build hook, the Python and the place are the same:
a stamp in .venv holds their digest and the extras that were installed.

Root's daemon runs as another user. Where only root may enter the checkout, .venv is a link to an
environment below /opt/iriai-checkouts, and what is installed there is a copy of the program that
each call brings up to date (docs/adr/0040).

    python3 scripts/set_up.py [--extra NAME]... [--packages FILE] [--remove]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
"""A link where the environment is at a place for all."""
PLACES = Path("/opt/iriai-checkouts")
COPIED = ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml", "scripts", "src")
"""What an installation of iriai is made from."""
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
"""Where a machine keeps the Python of all its users."""
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


def is_open(path: Path) -> bool:
    """Whether every user may enter the directory `path`, and all on the way to it."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def place() -> Path:
    """Return what iriai is installed from: the checkout, or a copy where all may read it."""
    if os.geteuid() != 0 or is_open(ROOT / "src" / "iriai"):
        return ROOT
    return PLACES / f"{ROOT.name}-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}"


def make_place(directory: Path) -> None:
    """Make a directory that is root's and that all may enter.

    Raises SetUpError where it, or the one that it is in, is somebody else's to write.
    """
    for each in (directory.parent, directory):
        each.mkdir(mode=0o755, exist_ok=True)
        status = each.lstat()
        is_roots = stat.S_ISDIR(status.st_mode) and status.st_uid == 0
        if not is_roots or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SetUpError(f"{each} is not a directory that root alone may write: remove it")


def mirror(source: Path, target: Path) -> None:
    """Make `target` hold the files of the directory `source`; what has not changed stays.

    Links are left out: they may point to what is not for all.
    """
    target.mkdir(exist_ok=True)
    wanted = {each.name: each for each in source.iterdir() if not each.is_symlink()}
    for each in target.iterdir():
        if each.name not in wanted and each.name != "__pycache__":
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    for name, each in wanted.items():
        if not each.is_dir():
            copy_file(each, target / name)
        elif name != "__pycache__":
            mirror(each, target / name)


def copy_file(source: Path, target: Path) -> None:
    """Put a copy of `source`, which all may read, in place of `target` where they differ."""
    status = source.stat()
    if target.exists() and _version(target.stat()) == _version(status):
        return
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")  # the old one may be running
    shutil.copyfile(source, fresh)
    fresh.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.replace(target)


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size


def copy_checkout(directory: Path) -> None:
    """Bring the copy of the checkout in `directory` up to date, and have .venv lead there."""
    make_place(directory)
    for name in COPIED:
        (mirror if (ROOT / name).is_dir() else copy_file)(ROOT / name, directory / name)
    if not ENVIRONMENT.is_symlink():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        (directory / ".venv").mkdir(exist_ok=True)
        ENVIRONMENT.symlink_to(directory / ".venv")


def linked_place() -> Path | None:
    """Return the place below PLACES where .venv leads; None where it leads nowhere such."""
    if not ENVIRONMENT.is_symlink() or ENVIRONMENT.readlink().parent.parent != PLACES:
        return None
    return ENVIRONMENT.readlink().parent


def suitable_python() -> str:
    """Return the Python to make the environment of: this one, or for root one that all may read."""
    if os.geteuid() != 0 or is_open(Path(sys.base_prefix).resolve()):
        return sys.executable
    for name in PYTHONS:
        command = [name, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if Path(name).exists() and subprocess.run(command, check=False).returncode == 0:
            return name
    raise SetUpError(
        f"only root may enter {sys.base_prefix}, where this Python is, and root's daemon runs as "
        "another user\nInstall Python 3.11 or newer for all users (apt-get install python3), or "
        "name one: make PYTHON=/path/to/it"
    )


def digest() -> str:
    """Return what the installation depends on, as one word."""
    state = hashlib.sha256(f"{place()} {suitable_python()} {sys.version}".encode())
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
            cwd=place(),
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
    python, environment = suitable_python(), ENVIRONMENT.resolve()
    command = [python, "-m", "venv", "--clear", str(environment)]
    print(f"Making {environment} with {python}", file=sys.stderr)
    outcome = subprocess.run(command, env=clean_environment(), capture_output=True, check=False)
    if outcome.returncode != 0 and "ensurepip" in (outcome.stdout + outcome.stderr).decode():
        install_debian([f"{Path(python).resolve().name}-venv"])
        outcome = subprocess.run(command, env=clean_environment(), capture_output=True, check=False)
    if outcome.returncode != 0:
        reason = (outcome.stderr or outcome.stdout).decode().strip()
        raise SetUpError(f"`{' '.join(command)}` failed: {reason}")


def install_iriai(extras: set[str]) -> None:
    """Install iriai into .venv in editable form, with these extras, and stamp it."""
    listed = f"[{','.join(sorted(extras))}]" if extras else ""
    print(f"Installing iriai{listed} and its libraries", file=sys.stderr)
    began_s = time.monotonic()
    pip = [
        str(ENVIRONMENT.resolve() / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--editable",
        f".{listed}",
    ]
    if run_as_status(pip) != 0:
        tail = "\n".join(LOG.read_text().splitlines()[-LOG_LINES_SHOWN:])
        raise SetUpError(f"pip failed; the whole story is in {LOG}, its end is:\n{tail}")
    STAMP.write_text(" ".join([digest(), *sorted(extras)]) + "\n")
    print(f"Installed in {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def set_up(extras: set[str], listing: Path | None) -> None:
    """Bring .venv and, where a list is given, the Debian packages up to date."""
    if listing is not None and (missing := missing_packages(listing)):
        install_debian(missing)
    os.umask(0o022)
    directory = place()
    if linked_place() not in (None, directory):
        ENVIRONMENT.unlink()
    if directory != ROOT:
        copy_checkout(directory)
    present = installed_extras()
    if present is None:
        create_environment()
    if present is None or not extras <= present:
        install_iriai(extras | (present or set()))


def remove() -> None:
    """Remove .venv, and the place that it leads to."""
    if (directory := linked_place()) is not None:
        shutil.rmtree(directory, ignore_errors=True)
    if ENVIRONMENT.is_symlink():
        ENVIRONMENT.unlink()
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)


def main() -> int:
    """Read the arguments and set up. Returns the exit code: 0, or 1 with the reason shown."""
    parser = argparse.ArgumentParser(description="make .venv and install iriai into it")
    parser.add_argument("--extra", action="append", default=[], metavar="NAME")
    parser.add_argument("--packages", type=Path, metavar="FILE")
    parser.add_argument("--remove", action="store_true")
    arguments = parser.parse_args()
    try:
        remove() if arguments.remove else set_up(set(arguments.extra), arguments.packages)
    except SetUpError as problem:
        print(f"set-up: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
