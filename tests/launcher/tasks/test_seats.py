"""Seats of several ranks: what runs on them, what each rank is given, and how they end."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from pathlib import Path

import msgspec

from iriai.launcher.contract.messages import (
    EndInput,
    Exit,
    Launch,
    ParallelSeat,
    SeatHost,
    StartOrder,
    StartStep,
    Template,
    Terminate,
)
from iriai.model.batch_variables import BatchSystem, BatchVariables
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.ranks import RANKS_MAX
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Binding, Interaction, Layout
from tests.launcher.harness import Lab, Machine, is_running, until

_numbers = itertools.count(100_000)
THREE = (SeatHost("ume", "10.0.0.1", 2), SeatHost("take", "10.0.0.2", 3), SeatHost("matsu", "m", 1))


def start(
    lab: Lab,
    spec: JobSpec,
    ranks: int,
    *,
    first: int = 0,
    seats: tuple[SeatHost, ...] = (),
    stdin: bytes = b"",
    environment: dict[str, str] | None = None,
    gpu_ids: tuple[int, ...] = (),
) -> AttemptId:
    attempt = AttemptId("ume", next(_numbers), 0, 1, first)
    packed = msgspec.msgpack.encode(environment or {})
    order = StartOrder(attempt, 0, gpu_ids, parallel=ParallelSeat(ranks, seats, 4711))
    lab.link.send(Launch((Template(spec, packed, b"", stdin),), (order,)))
    return attempt


def run(lab: Lab, spec: JobSpec, ranks: int, **more: object) -> Exit:
    return lab.link.exit_of(start(lab, spec, ranks, **more))  # type: ignore[arg-type]


def lines(lab: Lab, name: str = "out") -> list[str]:
    return sorted(lab.read(name).splitlines())


def variables(lab: Lab, name: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lab.read(name).splitlines() if "=" in line)


def test_each_rank_runs_once_and_the_seat_ends_when_all_have(lab: Lab) -> None:
    end = run(lab, lab.spec("sh", "-c", "echo $IRIAI_RANK of $IRIAI_RANKS"), 40)

    assert (end.cause, end.exit_code, end.message) == (EndCause.COMPLETED, 0, "")
    assert Counter(lines(lab)) == Counter(f"{rank} of 40" for rank in range(40))


def test_a_rank_that_fails_ends_the_others_of_its_seat(lab: Lab) -> None:
    text = 'echo $IRIAI_RANK; [ $IRIAI_RANK = 2 ] || exec sleep 600; until [ "$(wc -l < out)" = 5 ]'
    end = run(lab, lab.spec("sh", "-c", f"{text}; do sleep 0.01; done; exit 7"), 5)

    assert (end.cause, end.exit_code, end.signal) == (EndCause.FAILED, 7, None)
    assert end.message == "rank 2 ended with exit code 7"
    assert end.elapsed_s < 60


def test_a_rank_that_a_signal_ended_has_failed(lab: Lab) -> None:
    spec = lab.spec("sh", "-c", "[ $IRIAI_RANK = 1 ] && kill -9 $$; exec sleep 600")
    end = run(lab, spec, 2)

    assert (end.cause, end.exit_code, end.signal) == (EndCause.FAILED, None, signal.SIGKILL)
    assert end.message == "rank 1 ended by SIGKILL"


def test_to_keep_going_lets_all_ranks_end_and_tells_of_the_lowest_that_failed(lab: Lab) -> None:
    text = "sleep 0.$IRIAI_RANK; echo $IRIAI_RANK; [ $IRIAI_RANK = 1 ] && exit 5"
    end = run(
        lab, lab.spec("sh", "-c", f"{text}; [ $IRIAI_RANK = 3 ] || exit 9", keep_going=True), 4
    )

    assert (end.cause, end.exit_code) == (EndCause.FAILED, 9)
    assert end.message == "rank 0 ended with exit code 9"
    assert lines(lab) == ["0", "1", "2", "3"]


def test_a_command_that_is_not_there_is_named_with_the_rank(lab: Lab) -> None:
    end = run(lab, lab.spec("no-such-command"), 3)

    assert (end.cause, end.exit_code) == (EndCause.FAILED, 127)
    assert end.message.startswith("rank ")
    assert "no-such-command: command not found" in end.message


def test_all_ranks_of_a_seat_that_is_ended_end(lab: Lab) -> None:
    attempt = start(lab, lab.spec("sh", "-c", "echo $$; exec sleep 600"), 6)
    until(lambda: (lab.folder / "out").exists() and len(lines(lab)) == 6, "all ranks")
    pids = [int(line) for line in lines(lab)]

    lab.link.send(Terminate((attempt,), EndCause.CANCELLED, 5.0, "cancelled"))
    end = lab.link.exit_of(attempt)

    assert (end.cause, end.message) == (EndCause.CANCELLED, "cancelled")
    assert not any(map(is_running, pids))


def test_a_seat_can_be_ended_while_its_ranks_are_started(lab: Lab) -> None:
    attempt = start(lab, lab.spec("sleep", "600"), 2_000)
    lab.link.send(Terminate((attempt,), EndCause.CANCELLED, 0.0))

    assert lab.link.exit_of(attempt).cause is EndCause.CANCELLED


def test_what_ranks_leave_running_ends_with_the_last_of_them(lab: Lab) -> None:
    text = "[ $IRIAI_RANK = 0 ] && { setsid sleep 600 & echo $! > left; }; sleep 0.2"
    assert run(lab, lab.spec("sh", "-c", text), 3).cause is EndCause.COMPLETED
    assert not is_running(int(lab.read("left")))


def test_thousands_of_ranks_are_started_while_others_run(plain_machine: Machine) -> None:
    lab = Lab(plain_machine.start())
    many = start(lab, lab.spec("true", output=""), 3_000)
    one = lab.run("echo", "meanwhile")

    assert one.cause is EndCause.COMPLETED
    assert many not in lab.link.exits
    assert lab.link.exit_of(many).cause is EndCause.COMPLETED


# --- what a rank is given ------------------------------------------------------------------------


def test_a_rank_knows_its_place_among_all(lab: Lab) -> None:
    spec = lab.spec("env", output="env.%r", resources=Resources(cpus=2))
    assert run(lab, spec, 3, first=2, seats=THREE).cause is EndCause.COMPLETED

    for rank in (2, 3, 4):
        found = variables(lab, f"env.{rank}")
        own = (found["IRIAI_RANK"], found["RANK"], found["IRIAI_LOCAL_RANK"], found["LOCAL_RANK"])
        assert own == (str(rank), str(rank), str(rank - 2), str(rank - 2))
        assert (found["IRIAI_RANKS"], found["WORLD_SIZE"]) == ("6", "6")
        assert (found["IRIAI_LOCAL_RANKS"], found["LOCAL_WORLD_SIZE"]) == ("3", "3")
        assert (found["IRIAI_NODES"], found["IRIAI_NODE_RANK"], found["GROUP_RANK"]) == (
            "3",
            "1",
            "1",
        )
        assert found["IRIAI_NODELIST"] == "ume,take,matsu"
        assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("10.0.0.1", "4711")
        assert (found["OMP_NUM_THREADS"], found["IRIAI_CPUS"]) == ("2", "2")
    assert len({variables(lab, f"env.{rank}")["TMPDIR"] for rank in (2, 3, 4)}) == 1


def test_the_job_may_say_how_many_threads_a_rank_has(lab: Lab) -> None:
    spec = lab.spec("sh", "-c", "echo $OMP_NUM_THREADS $RANK")
    run(lab, spec, 2, environment={"OMP_NUM_THREADS": "7", "RANK": "99"})
    assert lines(lab) == ["7 0", "7 1"]


def test_the_host_file_is_the_users_alone(lab: Lab) -> None:
    text = "cat $IRIAI_HOSTFILE; stat -c '%a %u' $IRIAI_HOSTFILE; dirname $IRIAI_HOSTFILE"
    run(lab, lab.spec("sh", "-c", f"{text}; echo $TMPDIR", output="%r"), 2, seats=THREE)

    *hosts, mode, place, tmp = lab.read("0").splitlines()
    assert hosts == ["10.0.0.1 slots=2", "10.0.0.2 slots=3", "m slots=1"]
    assert mode == f"600 {lab.machine.uid}"
    assert place == tmp


def test_one_seat_needs_no_address_and_has_a_port_to_meet_at(lab: Lab) -> None:
    run(lab, lab.spec("sh", "-c", "cat $IRIAI_HOSTFILE; echo $MASTER_ADDR $IRIAI_NODES"), 2)
    assert lines(lab) == sorted(["127.0.0.1 slots=2", "127.0.0.1 1"] * 2)


def test_cards_are_divided_in_order_of_rank(lab: Lab) -> None:
    spec = lab.spec("sh", "-c", "echo $IRIAI_RANK: $CUDA_VISIBLE_DEVICES")
    run(lab, spec, 3, gpu_ids=(0, 1, 4, 5, 6, 7))
    assert lines(lab) == ["0: 0,1", "1: 4,5", "2: 6,7"]


def test_input_goes_to_rank_0(lab: Lab) -> None:
    run(lab, lab.spec("cat", output="%r"), 2, stdin=b"stored\n")
    assert (lab.read("0"), lab.read("1")) == ("stored\n", "")


def test_ranks_of_one_of_several_seats_share_a_file_of_their_own(lab: Lab) -> None:
    run(lab, lab.spec("sh", "-c", "echo $IRIAI_RANK", output="a%%r"), 3, first=2, seats=THREE)
    assert lines(lab, "a%r.2") == ["2", "3", "4"]
    assert run(lab, lab.spec("true", output="/dev/null"), 2, seats=THREE).exit_code == 0


def test_a_script_for_slurm_finds_nodes_and_tasks(lab: Lab) -> None:
    batch = BatchVariables(BatchSystem.SLURM, (("SLURM_JOB_NAME", "plum"),))
    run(
        lab,
        lab.spec("env", output="%r", batch=batch, resources=Resources(cpus=2)),
        3,
        first=2,
        seats=THREE,
    )
    found = variables(lab, "3")
    assert (found["SLURM_NTASKS"], found["SLURM_NNODES"]) == ("6", "3")
    assert (found["SLURM_TASKS_PER_NODE"], found["SLURM_JOB_CPUS_PER_NODE"]) == ("2,3,1", "4,6,2")
    assert (found["SLURM_PROCID"], found["SLURM_LOCALID"], found["SLURM_NODEID"]) == ("3", "1", "1")
    assert found["SLURM_JOB_NODELIST"] == "10.0.0.1,10.0.0.2,m"
    assert found["SLURM_CPUS_ON_NODE"] == "6"


def test_a_script_for_pbs_finds_each_rank_in_its_node_file(lab: Lab) -> None:
    batch = BatchVariables(BatchSystem.PBS)
    text = "cat $PBS_NODEFILE; echo $PBS_NP $PBS_NUM_NODES"
    run(lab, lab.spec("sh", "-c", text, output="%r", batch=batch), 2, seats=THREE)
    assert lab.read("1").split("\n")[:6] == ["10.0.0.1"] * 2 + ["10.0.0.2"] * 3 + ["m"]
    assert lab.read("1").split("\n")[6] == "6 3"


# --- streams -------------------------------------------------------------------------------------


def test_each_rank_that_is_watched_has_streams_of_its_own(lab: Lab) -> None:
    spec = lab.spec(
        "sh", "-c", "echo $IRIAI_RANK; cat", interaction=Interaction.STREAM, takes_input=True
    )
    attempt = start(lab, spec, 3)
    lab.link.pid_of(attempt)
    lab.link.until(lambda: attempt.seat(2) in lab.link.ends, "streams of the last")

    kinds = {
        each: set(ends) for each, ends in lab.link.ends.items() if each.number == attempt.number
    }
    assert kinds == {
        attempt: {"in", "out", "err"},
        attempt.seat(1): {"out", "err"},
        attempt.seat(2): {"out", "err"},
    }
    os.write(lab.link.ends[attempt]["in"], b"typed\n")
    os.close(lab.link.ends[attempt].pop("in"))
    lab.link.send(EndInput(attempt))
    assert lab.link.exit_of(attempt).cause is EndCause.COMPLETED
    printed = [os.read(lab.link.ends[attempt.seat(rank)]["out"], 100) for rank in range(3)]
    assert printed == [b"0\ntyped\n", b"1\n", b"2\n"]


def test_a_rank_whose_output_cannot_be_kept_ends_its_seat(lab: Lab) -> None:
    attempt = start(lab, lab.spec("sleep", "600", interaction=Interaction.STREAM), 3)
    lab.link.until(lambda: attempt.seat(2) in lab.link.ends, "streams of the last")
    lab.link.send(Terminate((attempt.seat(2),), EndCause.FAILED, 0.0, "the disk is full"))
    end = lab.link.exit_of(attempt)
    assert (end.cause, end.message) == (EndCause.FAILED, "the disk is full")


# --- the command runs once -----------------------------------------------------------------------


def test_the_command_runs_once_and_has_the_whole_seat(lab: Lab) -> None:
    spec = lab.spec("env", layout=Layout.FIRST, resources=Resources(cpus=2))
    end = run(lab, spec, 2, seats=THREE, gpu_ids=(0, 1))
    found = variables(lab, "out")

    assert end.cause is EndCause.COMPLETED
    assert (found["IRIAI_RANK"], found["IRIAI_RANKS"], found["IRIAI_LOCAL_RANKS"]) == (
        "0",
        "6",
        "2",
    )
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "RANK" not in found
    assert "WORLD_SIZE" not in found


def test_the_other_seats_wait_for_steps_until_they_are_stopped(lab: Lab) -> None:
    spec = lab.spec("touch", "ran", layout=Layout.FIRST)
    seat = start(lab, spec, 3, first=2, seats=THREE)
    waits = lab.link.pid_of(seat)

    step = seat.of_step(1)
    lab.link.send(StartStep(step, 3, ("sh", "-c", "echo $IRIAI_RANK"), Interaction.STREAM))
    assert lab.link.exit_of(step).cause is EndCause.COMPLETED
    assert lab.link.printed(step) == "3\n"
    wrong = seat.of_step(2)
    lab.link.send(StartStep(wrong, 5, ("true",), Interaction.STREAM))
    assert lab.link.exit_of(wrong).message == "the seat has no rank 5"

    assert is_running(waits)
    assert not (lab.folder / "ran").exists()
    lab.link.send(Terminate((seat,), EndCause.CANCELLED, 5.0))
    assert lab.link.exit_of(seat).cause is EndCause.CANCELLED
    assert not is_running(waits)


# --- processors ----------------------------------------------------------------------------------

AFFINITY = "import os; print(*sorted(os.sched_getaffinity(0)))"


def test_ranks_are_bound_to_processors_of_their_own(lab: Lab) -> None:
    own = sorted(map(str, os.sched_getaffinity(0)))
    for _ in range(2):  # they are given back
        assert run(lab, lab.python(AFFINITY, output="%r"), len(own)).cause is EndCause.COMPLETED
    found = [set(lines(lab, str(rank))) for rank in range(len(own))]
    assert sorted(each for few in found for each in few) == own


def test_ranks_that_are_not_to_be_bound_run_anywhere(lab: Lab) -> None:
    everywhere = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    run(lab, lab.python(AFFINITY, bind=Binding.NONE), 2)
    assert lines(lab) == [everywhere] * 2


# --- limits --------------------------------------------------------------------------------------


def test_a_seat_has_the_memory_of_all_its_ranks(lab: Lab) -> None:
    text = "b = bytearray(60 << 20); import time; time.sleep(0.6)"
    spec = lab.python(text, resources=Resources(1, 128 << 20))
    assert run(lab, spec, 2).cause is EndCause.COMPLETED

    end = run(lab, lab.python(text.replace("60", "400"), resources=Resources(1, 128 << 20)), 2)
    assert end.cause is EndCause.MEMORY_LIMIT
    assert "256M" in end.message


def test_the_time_limit_ends_all_ranks(lab: Lab) -> None:
    end = run(lab, lab.spec("sleep", "600", time_limit_s=0.3), 3)
    assert end.cause is EndCause.TIME_LIMIT


# --- what contradicts ----------------------------------------------------------------------------


def test_seats_that_contradict_start_nothing(lab: Lab) -> None:
    spec = lab.spec("touch", "ran")
    bad = SeatHost("two\nlines slots=9", "10.0.0.1", 2)
    wide = tuple(SeatHost("ume", "a", 60_000) for _ in range(2))
    long = tuple(SeatHost("a" * 250, "a", 1) for _ in range(600))
    for ranks, first, seats, words in (
        (2, 3, (), "it is the only seat, and begins with rank 3"),
        (1, 3, (), "it is the only seat, and begins with rank 3"),
        (2, 2, THREE, "none of its seats begins with rank 2 and has 2"),
        (3, 1, THREE, "none of its seats begins with rank 1 and has 3"),
        (2, 0, (bad,), "is no name or address of a machine"),
        (60_000, 0, wide, f"more than RANKS_MAX = {RANKS_MAX}"),
        (1, 0, long, "ask for fewer machines"),
    ):
        end = run(lab, spec, ranks, first=first, seats=seats)
        assert (end.cause, end.exit_code) == (EndCause.FAILED, 126), words
        assert words in end.message
    assert not (lab.folder / "ran").exists()


def test_several_ranks_have_no_terminal(lab: Lab) -> None:
    end = run(lab, lab.spec("true", interaction=Interaction.TERMINAL), 2)
    assert (end.cause, end.message) == (
        EndCause.FAILED,
        "several processes cannot have one terminal",
    )


def test_the_largest_environment_has_room_for_the_longest_lists_of_machines(lab: Lab) -> None:
    seats = tuple(SeatHost("a" * 250, "b" * 250, 1) for _ in range(520))
    given = {f"V{number}": "x" * 104_000 for number in range(10)}
    spec = lab.spec("true", batch=BatchVariables(BatchSystem.SLURM))
    assert run(lab, spec, 1, seats=seats, environment=given).cause is EndCause.COMPLETED


# --- after a crash -------------------------------------------------------------------------------


def test_the_next_launcher_ends_all_ranks_and_starts_none_again(machine: Machine) -> None:
    machine.start()
    lab = Lab(machine)
    attempt = start(lab, lab.spec("sh", "-c", "echo $$; exec env -i sleep 600"), 4)
    until(lambda: (lab.folder / "out").exists() and len(lines(lab)) == 4, "all ranks")
    pids = [int(line) for line in lines(lab)]
    lab.link.until(lambda: attempt in lab.link.spawned, "the start")
    machine.wait_until_read(lab.link)

    machine.kill()
    machine.start()

    assert not any(map(is_running, pids))
    again = machine.attach()
    assert again.welcome is not None
    assert [(each.attempt, each.cause) for each in again.welcome.ended] == [
        (attempt, EndCause.LOST)
    ]
    assert len(lines(lab)) == 4


def test_a_seat_that_only_waits_ends_with_its_launcher(machine: Machine) -> None:
    machine.start()
    lab = Lab(machine)
    seat = start(lab, lab.spec("true", layout=Layout.FIRST), 3, first=2, seats=THREE)
    pid = lab.link.pid_of(seat)
    descriptors = Path(f"/proc/{pid}/fd")
    until(lambda: len(list(descriptors.iterdir())) <= 3, "the waiting of the seat")

    machine.kill()
    machine.start()

    assert not is_running(pid)
    again = machine.attach()
    assert again.welcome is not None
    assert [each.attempt for each in again.welcome.ended] == [seat]
