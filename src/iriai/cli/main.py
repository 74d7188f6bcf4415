"""`iriai` as a process: starts fast, ends fast.

Nothing slow is imported here: an interrupt before `main` can catch it shows a traceback.
"""

from __future__ import annotations

import gc
import os
import sys

import iriai

EXIT_INTERRUPTED = 128 + 2


def main() -> None:
    """Run the command in `sys.argv` and end this process with its exit code."""
    _open_standard_streams()
    try:
        code = _run()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    # A short command is over before there is garbage, and what is imported stays: collecting
    # meanwhile, and taking everything apart at the end, were a third of its CPU time
    # (docs/adr/0030-command-line.md).
    gc.disable()
    iriai.load_msgspec()
    from iriai.cli.framework.program import run_arguments

    gc.freeze()
    gc.enable()
    return run_arguments(sys.argv[1:])


def _open_standard_streams() -> None:
    """Point a closed stdin, stdout or stderr at /dev/null so that no socket gets its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free number, always
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    main()
