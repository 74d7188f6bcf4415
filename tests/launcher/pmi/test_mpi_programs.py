"""MPI programs that the launcher starts directly, through PMI-1."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from iriai.home.fences import Fences
from iriai.launcher.contract.messages import (
    Discard,
    EndBarrier,
    Launch,
    ParallelSeat,
    SeatHost,
    StartOrder,
    Template,
    Terminate,
)
from iriai.launcher.environment.mpi import NO_AGENT
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.protocol.messages.fences import Fence
from tests.launcher.harness import Lab, until
from tests.launcher.tasks.test_seats import _numbers, lines, run, start

PI = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
    int rank, size;
    double part = 0, sum = 0;
    long steps = 1000000;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count > 1) { /* one aborts while the others, which would notice, do something else */
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == atoi(words[1]))
            MPI_Abort(MPI_COMM_WORLD, 7);
        sleep(60);
    }
    for (long at = rank; at < steps; at += size) {
        double x = (at + 0.5) / steps;
        part += 4 / (1 + x * x);
    }
    MPI_Reduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("pi %.6f of %d\\n", sum / steps, size);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The program, by library."""
    folder = tmp_path_factory.mktemp("mpi")
    (folder / "pi.c").write_text(PI)
    for kind in ("mpich", "openmpi"):
        words = [f"mpicc.{kind}", "-o", str(folder / kind), str(folder / "pi.c")]
        subprocess.run(words, check=True, capture_output=True)
    return {kind: folder / kind for kind in ("mpich", "openmpi")}


@pytest.fixture
def program(compiled: dict[str, Path], lab: Lab) -> str:
    """The MPICH program where the task's user can run it."""
    shutil.copy(compiled["mpich"], lab.folder / "pi")
    return "./pi"


@pytest.mark.parametrize("ranks", [2, 5])
def test_an_mpich_program_is_one_program_of_all_ranks(lab: Lab, program: str, ranks: int) -> None:
    end = run(lab, lab.spec(program), ranks)
    assert (end.cause, end.message) == (EndCause.COMPLETED, "")
    assert lab.read() == f"pi 3.141593 of {ranks}\n"


def test_it_may_be_watched(lab: Lab, program: str) -> None:
    attempt = start(lab, lab.spec(program, interaction=Interaction.STREAM), 3)
    assert lab.link.printed(attempt) == "pi 3.141593 of 3\n"


def test_a_rank_that_aborts_ends_all_with_its_code(lab: Lab, program: str) -> None:
    end = run(lab, lab.spec(program, "1"), 3)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 7)
    assert end.message == "rank 1 ended with exit code 7"


def test_a_daemon_that_dies_and_comes_back_ends_no_program(lab: Lab, program: str) -> None:
    text = f"[ $IRIAI_RANK = 1 ] && while [ ! -e go ]; do sleep 0.05; done; exec {program}"
    attempt = start(lab, lab.spec("sh", "-c", text), 3)
    lab.link.pid_of(attempt)
    time.sleep(0.3)  # the others wait in MPI_Init
    lab.link.close()
    lab.link = lab.machine.attach()
    (lab.folder / "go").touch()
    assert lab.link.exit_of(attempt).cause is EndCause.COMPLETED
    assert lines(lab) == ["pi 3.141593 of 3"]


def pass_barriers(lab: Lab, seats: list[AttemptId]) -> None:
    """Gather what the seats have put, as their home does, until the first of them ends."""
    fences = Fences(lambda _: tuple((seat.rank, str(seat.rank)) for seat in seats))
    answered = 0
    while not any(seat in lab.link.exits for seat in seats):
        for told in lab.link.barriers[answered:]:
            fence = Fence(told.attempt, told.number, told.put)
            for _, fenced in fences.take(str(told.attempt.rank), fence):
                lab.link.send(EndBarrier(fenced.attempt, fenced.number, fenced.put))
        answered = len(lab.link.barriers)
        assert lab.link.receive() is not None


def two_seats(lab: Lab, spec: JobSpec) -> list[AttemptId]:
    hosts = (SeatHost("ume", "127.0.0.1", 2), SeatHost("take", "127.0.0.1", 3))
    number = next(_numbers)
    seats = [AttemptId("ume", number, 0, 1, rank) for rank in (0, 2)]
    orders = (
        StartOrder(seats[0], 0, parallel=ParallelSeat(2, hosts, 4711)),
        StartOrder(seats[1], 0, parallel=ParallelSeat(3, hosts, 4711)),
    )
    lab.link.send(Launch((Template(spec, msgspec.msgpack.encode({})),), orders))
    return seats


def test_the_ranks_of_several_seats_are_one_program(lab: Lab, program: str) -> None:
    seats = two_seats(lab, lab.spec(program))
    pass_barriers(lab, seats)
    for seat in seats:
        assert lab.link.exit_of(seat).cause is EndCause.COMPLETED
    assert lab.read("out.0") == "pi 3.141593 of 5\n"


def test_a_daemon_that_comes_back_is_told_the_barriers_of_its_seats(lab: Lab, program: str) -> None:
    seats = two_seats(lab, lab.spec(program))
    lab.link.until(lambda: len(lab.link.barriers) == 2, "both seats")
    before = lab.link.barriers
    lab.link.close()
    lab.link = lab.machine.attach()
    lab.machine.wait_until_read(lab.link)
    assert {each.attempt: each for each in lab.link.barriers} == {e.attempt: e for e in before}

    pass_barriers(lab, seats)
    assert lab.link.exit_of(seats[1]).cause is EndCause.COMPLETED
    assert lab.read("out.0") == "pi 3.141593 of 5\n"


def test_an_openmpi_program_says_that_mpirun_starts_it(lab: Lab, compiled: dict[str, Path]) -> None:
    shutil.copy(compiled["openmpi"], lab.folder / "pi")
    end = run(lab, lab.spec("./pi"), 2)
    assert end.cause is EndCause.FAILED
    assert NO_AGENT in lab.read()
    assert "pi " not in lab.read()


# --- what ranks do to one another ----------------------------------------------------------------

CLIENT = """
import os, socket, sys
manager = socket.socket(fileno=int(os.environ["PMI_FD"]))
def ask(line):
    manager.sendall(line.encode() + b"\\n")
    return manager.recv(4096).decode().strip()
rank = int(os.environ["PMI_RANK"])
print(ask("cmd=init pmi_version=1 pmi_subversion=1")[-4:], os.environ["PMI_SIZE"], flush=True)
"""


def test_a_rank_that_sends_garbage_loses_its_connection_alone(lab: Lab) -> None:
    text = CLIENT + "print(repr(ask('garbage' if rank else 'cmd=get_appnum')))"
    end = run(lab, lab.python(text, output="%r"), 2)
    assert end.cause is EndCause.COMPLETED
    assert lines(lab, "0") == ["'cmd=appnum rc=0 appnum=0'", "rc=0 2"]
    assert lines(lab, "1") == ["''", "rc=0 2"]


def test_a_rank_that_asks_without_reading_holds_up_nobody(lab: Lab) -> None:
    text = CLIENT + (
        "if rank:\n"
        "    try:\n"
        "        while True: manager.sendall(b'cmd=get_maxes\\n' * 1000)\n"
        "    except OSError: print('closed')\n"
    )
    attempt = start(lab, lab.python(text, output="%r"), 2)
    assert lab.run("true").cause is EndCause.COMPLETED
    assert lab.link.exit_of(attempt).cause is EndCause.COMPLETED
    assert "closed" in lines(lab, "1")


def test_no_connection_stays_open(lab: Lab) -> None:
    assert lab.machine.process is not None
    files, before = f"/proc/{lab.machine.process.pid}/fd", 0
    for _ in range(4):
        attempt = start(lab, lab.python(CLIENT + "import time; time.sleep(600)"), 8)
        until(lambda: (lab.folder / "out").exists() and len(lines(lab)) == 8, "all ranks")
        lab.link.send(Terminate((attempt,), EndCause.CANCELLED, 0.0))
        assert lab.link.exit_of(attempt).cause is EndCause.CANCELLED
        lab.link.send(Discard((attempt,)))
        (lab.folder / "out").unlink()
        lab.machine.wait_until_read(lab.link)
        before = before or len(os.listdir(files))
    until(lambda: len(os.listdir(files)) <= before, "the end of all connections")
