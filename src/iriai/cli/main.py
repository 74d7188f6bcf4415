"""`iriai` as a process: started fast, ended fast."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Run the command in `sys.argv` and end this process with its exit code."""
    _open_standard_streams()
    # A short command is over before there is garbage, and what is imported stays: collecting
    # meanwhile, and taking everything apart at the end, are a fifth of its time
    # (docs/adr/0030-command-line.md).
    gc.disable()
    from iriai.cli.command_line import run_words

    gc.freeze()
    gc.enable()
    code = run_words(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Where one of the three is closed, open nothing in its place, lest a socket becomes it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free number, always
        pass
    os.close(descriptor)
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open("w")
    sys.stderr = sys.stderr or nowhere.open("w")


if __name__ == "__main__":
    main()
