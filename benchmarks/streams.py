"""Bytes through `iriai run -- cat`, and keys through `iriai run --pty`.

`mb_per_s`: a pipe of bytes through the command, from its first byte in to its last byte out; `here`
on one machine, `there` to another machine of a cluster, in network namespaces. `relay_mb_per_s`:
through a plain relay in Python with as many processes in a row, over Unix sockets here, with TLS
between two of them there. `ratio`: of the two, in the same run; the goal is 0.5 (and 100 MB/s
here). `echo_p50_ms`, `echo_p99_ms`: from a key until `cat` on a terminal has it echoed; the goal
is 5 ms here, 10 there. `stalled_mib`: by how much the daemon grows while a task prints, and nobody
reads; the goal is 4. Needs root.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Sequence
from pathlib import Path

from harness.live_network import Network, live_network, until
from harness.options import Options, read_options
from harness.report import Figure, finish, machine_facts, median, percentile, progress, ratio

MEGABYTE = 10**6
BYTES, QUICK_BYTES = 400 * MEGABYTE, 20 * MEGABYTE
KEYS, QUICK_KEYS = 300, 20
SETTLE_S = 3.0
"""Before the first run, so that machines that were just started are idle."""
STALL_S = 5.0
WAIT_S = 120.0
PIECE_BYTES = 1 << 16
HOPS = {"here": 1, "there": 2}
"""Daemons between client and task."""
RELAY = Path(__file__).with_name("harness") / "stream_relay.py"
ON = {"here": "m0", "there": "m1"}


def command_of(network: Network, where: str, *words: str) -> list[str]:
    """Return `iriai run` on a machine, as the user on the first one."""
    machine = network.machines["m0"]
    wanted = f'Machine == "{ON[where]}"'
    command: list[str] = machine.command("run", "--requirements", wanted, *words)
    return command


def mb_per_s(command: Sequence[str], size_bytes: int, environment: dict[str, str]) -> float:
    """Write so many bytes to a command and read them; return the rate, and check the number."""
    zeros = bytes(PIECE_BYTES)
    began_s = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/tmp"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        source, sink = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(source, False)
        left, read = size_bytes, 0
        while True:
            readable, writable, _ = select.select([sink], [source] if left else [], [], WAIT_S)
            if not (readable or writable):
                raise RuntimeError(f"nothing moved for {WAIT_S:.0f} s after {read} bytes")
            if writable:
                left -= os.write(source, zeros[: min(left, PIECE_BYTES)])
                if not left:
                    process.stdin.close()
            if readable:
                data = os.read(sink, 1 << 20)
                if not data:
                    break
                read += len(data)
    if read != size_bytes or process.returncode:
        raise RuntimeError(f"{read} of {size_bytes} bytes came back, exit {process.returncode}")
    return size_bytes / MEGABYTE / (time.perf_counter() - began_s)


def echo_times_ms(command: Sequence[str], keys: int, environment: dict[str, str]) -> list[float]:
    """Type keys at a terminal, one after the other; return how long each took to be echoed."""
    ours, theirs = pty.openpty()
    tty.setraw(ours)
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            _read_until(ours, b"ready")
            return [_echo_ms(ours) for _ in range(keys)]
        finally:
            os.write(ours, b"\x04\x04")
            process.kill()
            os.close(ours)


def _echo_ms(terminal: int) -> float:
    time.sleep(0.02)  # a person is slower
    began_s = time.perf_counter()
    os.write(terminal, b"k")
    _read_until(terminal, b"k")
    return (time.perf_counter() - began_s) * 1000


def _read_until(terminal: int, text: bytes) -> None:
    shown, deadline_s = b"", time.monotonic() + WAIT_S
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], deadline_s - time.monotonic())
        if not ready:
            raise RuntimeError(f"{text!r} was not shown, but {shown!r}")
        shown += os.read(terminal, PIECE_BYTES)


def stalled_mib(network: Network, where: str) -> float:
    """Return by how much the daemons grow while a task prints that nobody reads."""
    machine = network.machines["m0"]
    before = {name: _resident_mib(network.machines[name].pid("daemon")) for name in ("m0", "m1")}
    words = command_of(network, where, "--no-stdin", "--", "head", "-c", "200M", "/dev/zero")
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=machine.environment()) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(STALL_S)
        after = {name: _resident_mib(network.machines[name].pid("daemon")) for name in before}
        process.stdout.close()
    with machine.client() as client:
        client.cancel([row.id for row in client.jobs()])
        until(lambda: not client.jobs(), "the end of the task")
    return max(after[name] - before[name] for name in before)


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(network: Network, where: str, options: Options) -> dict[str, Figure]:
    """Measure streams to one machine."""
    environment = network.machines["m0"].environment()
    size_bytes = options.tasks(BYTES, QUICK_BYTES)
    through = command_of(network, where, "--", "cat")
    kind = "tls" if where == "there" else "plain"
    relay = [sys.executable, str(RELAY), str(HOPS[where]), kind]
    rates, relayed = [], []
    for run in range(options.runs):
        rates.append(mb_per_s(through, size_bytes, environment))
        relayed.append(mb_per_s(relay, size_bytes, environment))
        progress(f"{where}, run {run + 1}: {rates[-1]:.0f} MB/s, a relay {relayed[-1]:.0f}")
    typed = command_of(network, where, "--pty", "--", "sh", "-c", "echo ready; exec cat")
    times_ms = echo_times_ms(typed, options.tasks(KEYS, QUICK_KEYS), environment)
    result = {
        "mb_per_s": median(rates),
        "relay_mb_per_s": median(relayed),
        "ratio": ratio(median(rates), median(relayed)),
        "echo_p50_ms": median(times_ms, 2),
        "echo_p99_ms": round(percentile(times_ms, 99), 2),
        "stalled_mib": round(stalled_mib(network, where), 1),
    }
    progress(f"{where}: {result}")
    return result


def main() -> None:
    """Measure streams here and there."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    with live_network(2) as (network, _):
        time.sleep(SETTLE_S)
        figures = {where: measure(network, where, options) for where in ON}
    finish({"benchmark": "streams", **figures, "machine": facts})


if __name__ == "__main__":
    main()
