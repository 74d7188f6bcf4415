"""Standard streams of our processes: 0, 1 and 2, and nothing else.

Whatever the shell of `iriai up` had open would else be open in the daemon, in the launcher and in
every task, writable with the rights that it was opened with.
"""

from __future__ import annotations

import os
from contextlib import suppress

FIRST_OTHER = 3
"""The lowest descriptor beyond standard input, output and error."""


def keep_standard_descriptors() -> None:
    """Close all descriptors but 0, 1 and 2, and open /dev/null for those that are closed.

    To be called first, before this process opens anything.
    """
    for name in os.listdir("/proc/self/fd"):  # the descriptor of the listing is closed already
        if int(name) >= FIRST_OTHER:
            with suppress(OSError):
                os.close(int(name))
    while (fd := os.open(os.devnull, os.O_RDWR)) < FIRST_OTHER:
        os.set_inheritable(fd, True)
    os.close(fd)
