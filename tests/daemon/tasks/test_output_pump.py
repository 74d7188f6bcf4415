"""What a task prints, moved into a file."""

from __future__ import annotations

import os
import tty
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from iriai.daemon.tasks.output_pump import OutputPump
from tests.support.loops import in_loop, until


def test_a_terminal_that_is_closed_and_opened_again_is_read_on(tmp_path: Path):
    """As by a program that lets go of its terminal, and writes to /dev/tty later."""
    file = tmp_path / "out"

    async def body() -> None:
        master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(master, False)
        name, reads = os.ttyname(slave), list[bool]()
        kept = os.open(file, os.O_RDWR | os.O_CREAT)
        with ThreadPoolExecutor(1) as threads:
            pump = OutputPump(
                *(master, kept, threads, lambda: reads.append(True), print), is_terminal=True
            )
            os.write(slave, b"first ")
            await until(lambda: reads)
            os.close(slave)
            await until(lambda: not pump._is_read and not pump._is_moving)
            again = os.open(name, os.O_WRONLY | os.O_NOCTTY)
            os.write(again, b"later")
            await until(lambda: file.read_bytes() == b"first later")
            pump.close()
            os.close(again)

    in_loop(body)
