"""Real daemons in network namespaces that lose their broker, nodes, a home and the network.

A third of the machines accepts no connections; all that they say passes a switch that holds each
frame back for 50 ms and loses one in a hundred. Tasks of several homes, one of them behind a
firewall, write themselves into a file outside, by which it is judged whether each ran to its end,
once. `whole_s`: until all see all. `went_on_s`: after each blow, until the next task began, at any
machine. Needs root.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.options import Options, read_options
from harness.report import finish, machine_facts, progress
from harness.task_user import task_user

sys.path.insert(0, str(Path(__file__).parents[1]))  # the machines are those of the tests
network_kit = importlib.import_module("tests.endtoend.network")
judge_kit = importlib.import_module("tests.endtoend.judge")
people_kit = importlib.import_module("tests.support.people")
waiting_kit = importlib.import_module("tests.support.waiting")

MACHINES, QUICK_MACHINES = 20, 4
HOMES, QUICK_HOMES = 5, 2
TASKS, QUICK_TASKS = 2_000, 24
CPUS = 3
SLEEP_S = 2.0
STOP_S, QUICK_STOP_S = 30.0, 6.0
SPLIT_S, QUICK_SPLIT_S = 60.0, 6.0
WAIT_S = 900.0
DELAY_S = 0.05
LOSS = 0.01
LEASE = "lease_s = 30"


class Trial:
    """One cluster, its work, and the blows that it takes."""

    def __init__(self, options: Options) -> None:
        self.quick = options.quick
        user = task_user()
        person = people_kit.TestPerson(user.pw_name, user.pw_uid, user.pw_gid, ())
        self.network: Any = network_kit.Network(person)
        self.went_on_s: dict[str, float] = {}
        self.judges: dict[str, Any] = {}
        self.jobs: dict[str, str] = {}

    def bring_up(self) -> float:
        """Add and start all machines; returns how long that took."""
        began_s = time.monotonic()
        count = QUICK_MACHINES if self.quick else MACHINES
        for number in range(count):
            outward_only = number % 3 == 2
            name = f"m{number}"
            self.network.add(name, outward_only=outward_only, cpus=CPUS, jobs=LEASE)
        self.network.start()
        self.network.switch.delay_s, self.network.switch.loss = DELAY_S, LOSS
        return time.monotonic() - began_s

    def submit(self) -> None:
        """Hand in the work; the third home accepts no connections."""
        homes = list(self.network.machines)[1 : 1 + (QUICK_HOMES if self.quick else HOMES)]
        tasks = (QUICK_TASKS if self.quick else TASKS) // len(homes)
        for name in homes:
            home = self.network.machines[name]
            judge = self.judges[name] = judge_kit.Judge(home)
            with home.client() as client:
                draft = home.draft(*judge.command(SLEEP_S), array=((1, tasks, 1),))
                self.jobs[name] = client.submit(draft).id

    def begun(self) -> int:
        """How many attempts have begun."""
        return sum(judge.begun() for judge in self.judges.values())

    def blow(self, what: str, strike: Callable[[], None]) -> None:
        """Strike, and see how long it takes until the next task begins."""
        progress(f"{what}; {self.begun()} tasks have begun")
        strike()
        before, began_s = self.begun(), time.monotonic()
        waiting_kit.until(lambda: self.begun() > before, f"work to go on after {what}")
        self.went_on_s[what] = round(time.monotonic() - began_s, 2)

    def broker(self) -> str:
        """The machine that is the broker, as the first that answers sees it."""
        reports = [machine.status() for machine in self.network.machines.values()]
        return str(next(report.broker for report in reports if report))

    def kill(self, machine: str) -> None:
        """Kill a machine's daemon; its supervisor starts it again."""
        self.network.machines[machine].kill("daemon")

    def kill_nodes(self) -> None:
        """Kill three machines' daemons and launchers, of those that are no homes."""
        others = [m for n, m in self.network.machines.items() if n not in self.judges]
        for machine in others[-1 if self.quick else -3 :]:
            machine.kill("daemon")
            machine.kill("launcher")

    def stop_broker(self) -> None:
        """Stop the broker for a while, and let it go on in its own time."""
        pid = self.network.machines[self.broker()].pid("daemon")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(QUICK_STOP_S if self.quick else STOP_S)
        os.kill(pid, signal.SIGCONT)

    def split(self) -> None:
        """Cut a third of the machines off for a while."""
        names = list(self.network.machines)
        part = [name for name in names if name not in self.judges][: len(names) // 3]
        self.network.switch.separate(part, [name for name in names if name not in part])
        time.sleep(QUICK_SPLIT_S if self.quick else SPLIT_S)
        self.network.switch.heal()

    def strike(self) -> None:
        """All blows, one after the other, while tasks run."""
        a_home = next(iter(self.judges))
        self.blow("the broker was killed", lambda: self.kill(self.broker()))
        self.blow("nodes were killed", self.kill_nodes)
        self.blow("a home was killed", lambda: self.kill(a_home))
        if not self.quick:
            self.blow("the broker was stopped", self.stop_broker)
            self.blow("the network was split", self.split)

    def judge(self) -> dict[str, int]:
        """Wait for all, and raise unless every task ended well, once."""
        total = {"tasks": 0, "began": 0, "lost": 0}
        for name, job in self.jobs.items():
            home = self.network.machines[name]
            waiting_kit.until(home.answers, f"{name} to answer")
            with home.client() as client:
                client.wait([job])
                for key, count in self.judges[name].decide(client, [job]).items():
                    total[key] += count
        return total


def main() -> None:
    """Run the trial once: it is judged, not measured to the millisecond."""
    options = read_options(str(__doc__))
    vars(waiting_kit)["WAIT_S"] = WAIT_S
    trial = Trial(options)
    try:
        whole_s = trial.bring_up()
        progress(f"all see all after {whole_s:.1f} s")
        trial.submit()
        began_s = time.monotonic()
        waiting_kit.until(lambda: trial.begun() > 0, "work to begin")
        trial.strike()
        judged = trial.judge()
        finish(
            {
                "whole_s": round(whole_s, 1),
                "finished_s": round(time.monotonic() - began_s, 1),
                "went_on_s": trial.went_on_s,
                "judged": judged,
                "settings": {
                    "runs": 1,
                    "machines": len(trial.network.machines),
                    "delay_s": DELAY_S,
                    "loss": LOSS,
                    "task_s": SLEEP_S,
                },
                "machine": machine_facts(Path(tempfile.gettempdir())),
            }
        )
    finally:
        trial.network.stop()


if __name__ == "__main__":
    main()
