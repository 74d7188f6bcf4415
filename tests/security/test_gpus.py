"""A task gets at the GPUs that it was given, and at no others, whatever it was handed in with.

There are no GPUs here: device nodes with numbers that no driver has stand for them. The kernel
decides about a node before it looks for its driver, so a node that a task may open gives ENXIO (no
such device), and one that it may not EPERM.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iriai.launcher.gpus.gpus import SYSTEM_CLAIMS
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from tests.endtoend.installation import MARK, PATH, PYTHON, Installation
from tests.launcher.harness import Lab, Machine, Variant
from tests.support.people import People

pytestmark = pytest.mark.root

LOCAL_MAJOR = 120
"""The first of those that no driver is given (Documentation/admin-guide/devices.txt)."""
_minors = itertools.count(os.getpid() * 8 % (1 << 20))
BOTH = (Variant("version-1"), Variant("version-2", isolation="v2"))
TRY = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        print(error.errno)
"""
ALLOWED, DENIED = f"{errno.ENXIO}\n", f"{errno.EPERM}\n"


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two made-up cards that everybody may open, by the modes of their nodes."""
    made = []
    for _ in range(2):
        minor = next(_minors)
        path = f"/dev/iriai-test-{LOCAL_MAJOR}-{minor}"
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(LOCAL_MAJOR, minor))
        os.chmod(path, 0o666)
        made.append(path)
    yield made[0], made[1]
    for path in made:
        os.unlink(path)
        claim = path.removeprefix("/dev/iriai-test-")
        Path(SYSTEM_CLAIMS, claim).unlink(missing_ok=True)


@pytest.fixture
def new_machine(people: People) -> Iterator[Callable[[Variant, str], Machine]]:
    """Machines on which ann's tasks run, with a machine file."""
    machines: list[Machine] = []

    def make(variant: Variant, machine_file: str) -> Machine:
        machines.append(Machine(variant, people.ann.name))
        (machines[-1].state / "machine.json").write_text(machine_file)
        return machines[-1].start()

    yield make
    for each in machines:
        each.close()


def file_of(*cards: str, gpu_ids: tuple[int, ...] = ()) -> str:
    """What a daemon leaves for the launcher."""
    listed = ", ".join(f'"{card}"' for card in cards)
    return f'{{"gpu_devices": [{listed}], "gpu_ids": {list(gpu_ids)}}}'


def tried(lab: Lab, nodes: tuple[str, ...], *gpu_ids: int) -> str:
    end = lab.end_of(lab.python(TRY, *nodes, output=f"{gpu_ids}"), gpu_ids=gpu_ids)
    assert end.exit_code == 0, end
    text = lab.read(f"{gpu_ids}")
    (lab.folder / f"{gpu_ids}").unlink()
    return text


@pytest.mark.parametrize("variant", BOTH, ids=str)
def test_the_kernel_keeps_cards_from_tasks_that_they_were_not_given_to(
    new_machine: Callable[[Variant, str], Machine], nodes: tuple[str, str], variant: Variant
):
    """T11c: one group after the other with other cards, and the same group again."""
    lab = Lab(new_machine(variant, file_of(*nodes)))
    assert tried(lab, nodes) == DENIED + DENIED
    assert tried(lab, nodes, 1) == DENIED + ALLOWED
    assert tried(lab, nodes, 0) == ALLOWED + DENIED
    assert tried(lab, nodes, 0, 1) == ALLOWED + ALLOWED
    assert tried(lab, nodes) == DENIED + DENIED
    assert tried(lab, ("/dev/null", "/dev/zero")) == ""
    lab.close()


@pytest.mark.parametrize("variant", BOTH, ids=str)
def test_two_tasks_at_once_have_their_own_cards(
    new_machine: Callable[[Variant, str], Machine], nodes: tuple[str, str], variant: Variant
):
    """T11c."""
    lab = Lab(new_machine(variant, file_of(*nodes)))
    wait = "import time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    text = TRY.replace("for path", f"open(sys.argv.pop(), 'x')\n{wait}for path")
    first, second = (
        lab.launch(lab.python(text, *nodes, f"ready{each}", output=f"out{each}"), gpu_ids=(each,))
        for each in (0, 1)
    )
    for attempt in (first, second):
        lab.link.pid_of(attempt)
    (lab.folder / "go").touch()
    assert [lab.link.exit_of(each).exit_code for each in (first, second)] == [0, 0]
    assert lab.read("out0") == ALLOWED + DENIED
    assert lab.read("out1") == DENIED + ALLOWED
    lab.close()


def test_two_launchers_of_one_host_do_not_give_the_same_card_away(
    new_machine: Callable[[Variant, str], Machine], nodes: tuple[str, str]
):
    """T11b: the second says who has it; with `gpu_ids` each has its own; all is given back."""
    first, second = (Lab(new_machine(BOTH[0], file_of(*nodes))) for _ in range(2))
    running = first.launch(first.spec("sleep", "600"), gpu_ids=(0,))
    first.link.pid_of(running)
    refused = second.end_of(second.spec("true"), gpu_ids=(0,))
    assert refused.cause is EndCause.REFUSED
    assert f"GPU 0 is in use by a task of {first.machine.state}" in refused.message
    assert "gpu_ids" in refused.message
    other = Lab(new_machine(BOTH[0], file_of(*nodes, gpu_ids=(1,))))
    assert tried(other, nodes, 0) == DENIED + ALLOWED
    os.kill(first.link.pid_of(running), 9)
    first.link.exit_of(running)
    assert tried(second, nodes, 0) == ALLOWED + DENIED
    for lab in (first, second, other):
        lab.close()


def test_a_card_that_is_not_given_away_here_is_refused(
    new_machine: Callable[[Variant, str], Machine], nodes: tuple[str, str]
):
    """T11b: what a daemon orders is checked by the launcher."""
    lab = Lab(new_machine(BOTH[0], file_of(*nodes, gpu_ids=(1,))))
    end = lab.end_of(lab.spec("true"), gpu_ids=(0, 1))
    assert end.cause is EndCause.REFUSED
    assert "2 GPUs are needed, 1 are offered here" in end.message
    assert end.attempt == AttemptId("ume", end.attempt.number, 0, 1)
    lab.close()


def test_a_user_asks_for_cards_and_sees_no_others(
    people: People, nodes: tuple[str, str], tmp_path: Path
):
    """T11a, T11c: through the daemon, as an ordinary user."""
    machine = Installation(people.ann)
    listed = ", ".join(f'"{node}"' for node in nodes)
    machine.configure(f'[machine]\nname = "ume"\ncpus = 2\ngpu_devices = [{listed}]\n')
    try:
        machine.start()
        words = ("--", PYTHON, "-c", TRY, *nodes)
        assert machine.call("run", *words).stdout == DENIED + DENIED
        assert machine.call("run", "--gpus", "1", *words).stdout == ALLOWED + DENIED
        seen = {"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "all"}
        seen |= {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}
        assert visible(machine, seen) == ["", "", "void", ""]
        assert visible(machine, seen, "--gpus", "2") == ["0,1", "", "0,1", ""]
        told = subprocess.run(
            machine.command("doctor")[-2:],
            env=machine.environment() | {"PATH": PATH, MARK: str(machine.directory)},
            capture_output=True,
            text=True,
            check=False,
        )
        [row] = [line for line in told.stdout.splitlines() if "devices" in line.split()]
        assert "cgroup v1 devices" in row, told.stdout
    finally:
        machine.stop()


def visible(machine: Installation, seen: dict[str, str], *options: str) -> list[str]:
    done = machine.call("run", *options, "--", "env", **seen)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return [found[name] for name in sorted(seen)]
