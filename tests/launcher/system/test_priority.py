"""The launcher gets its turn among busy tasks, and nothing that it starts does."""

import os
import subprocess
import sys

import pytest

from tests.launcher.harness import Lab, Machine

POLICY = "import os; print(os.sched_getscheduler(0))"
RAISE = "from iriai.launcher.system.syscalls import raise_priority; raise_priority()"


@pytest.mark.root
def test_a_launcher_of_root_comes_before_its_tasks(plain_machine: Machine):
    lab = Lab(plain_machine.start())
    assert plain_machine.process is not None
    policy = os.sched_getscheduler(plain_machine.process.pid)
    assert policy == os.SCHED_RR | os.SCHED_RESET_ON_FORK
    lab.end_of(lab.python(POLICY))
    assert lab.read() == f"{os.SCHED_OTHER}\n"


def test_one_that_has_a_policy_of_its_own_keeps_it():
    own = "import os; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))"
    text = f"{own}; {RAISE}; {POLICY}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert int(done.stdout) == os.SCHED_BATCH
