"""Speed of this machine: measured once by `iriai doctor --measure`, and stored.

KFlops and Mips are HTCondor's names; the numbers come from iriai's own loops and are comparable
only among machines of iriai: a chain of multiplications and additions in the processor's nearest
cache, by NumPy, on one core. `Speed`, by which charges are multiplied, stays as configured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from iriai.model.ad import Value
from iriai.model.bounds import decoded

FILE_NAME = "speed.json"
ELEMENTS = 2048
"""Length of the arrays: two of them fit into the nearest cache of any processor."""
ROUNDS = 200
"""Operations between two readings of the clock: about a millisecond."""
REPEATS = 50
"""Number of runs; the fastest counts, since other processes may have used the core."""
SANE_MAX = 10**12
"""Bound of KFlops: a file with more was not written by iriai."""


class MeasuredSpeed(msgspec.Struct, frozen=True):
    """A measured speed, with its date."""

    kflops: int
    """Thousands of floating-point operations a second."""
    mips: int
    """Millions of integer operations a second."""
    measured_wall_s: float


def measure_speed() -> MeasuredSpeed:
    """Run the loops: about a fifth of a second. Loads NumPy: call it in a process of its own."""
    import numpy as np

    reals, factor = np.linspace(0.5, 1.5, ELEMENTS), np.full(ELEMENTS, 0.999)
    whole, mask = np.arange(ELEMENTS, dtype=np.int64), np.full(ELEMENTS, 0x5555, np.int64)

    def with_reals() -> None:
        np.multiply(reals, factor, out=reals)
        np.add(reals, 0.001, out=reals)

    def with_integers() -> None:
        np.add(whole, mask, out=whole)
        np.bitwise_xor(whole, mask, out=whole)

    per_s = [2 * ELEMENTS * ROUNDS / _fastest_s(step) for step in (with_reals, with_integers)]
    return MeasuredSpeed(int(per_s[0] / 1e3), int(per_s[1] / 1e6), time.time())


def _fastest_s(step: Callable[[], None]) -> float:
    best_s = float("inf")
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        for _ in range(ROUNDS):
            step()
        best_s = min(best_s, time.perf_counter() - began_s)
    return best_s


def read_speed(directory: str) -> dict[str, Value]:
    """Return the measured speed as attributes of the ad; none without a valid measurement."""
    try:
        found = decoded(
            msgspec.json.Decoder(MeasuredSpeed), Path(directory, FILE_NAME).read_bytes()
        )
    except (OSError, msgspec.MsgspecError):
        return {}
    if not (0 < found.kflops < SANE_MAX and 0 < found.mips < SANE_MAX):
        return {}
    return {"KFlops": found.kflops, "Mips": found.mips}


def write_speed(directory: str, speed: MeasuredSpeed) -> None:
    """Store a measurement for the next start."""
    path = Path(directory, FILE_NAME)
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(speed))
    draft.replace(path)


if __name__ == "__main__":
    write_speed(sys.argv[1], measure_speed())
