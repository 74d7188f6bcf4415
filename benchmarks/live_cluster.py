"""Real daemons in network namespaces that lose their broker, nodes, a home and the network.

A third of the machines accepts no connections; all that they say passes a switch that holds each
frame back for 50 ms and loses one in a hundred. Tasks of several homes, one of them behind a
firewall, write themselves into a file outside, by which it is judged whether each ran to its end,
once. `whole_s`: until all see all. `rest`: what each machine uses before there is work. After each
blow `went_on_s` is the longest time in which no task began anywhere, and `others_paused_s` the same
of any single home that was not hurt; `calm` has both while nothing was. Needs root.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.at_rest import rest_figures
from harness.begins import Begins
from harness.lines import Lines
from harness.live_network import Network, judge_kit, live_network, until
from harness.options import Options, read_options
from harness.report import finish, machine_facts, progress

MACHINES, QUICK_MACHINES = 20, 4
HOMES, QUICK_HOMES = 5, 2
TASKS, QUICK_TASKS = 8_000, 240
"""Thirty begin each second: enough for all blows, so that the last of them finds a queue too."""
CPUS = 3
SLEEP_S = 2.0
STOP_S = 30.0
SPLIT_S = 60.0
WATCH_S, QUICK_WATCH_S = 15.0, 4.0
"""After a blow is over: what it does shows within this time."""
SETTLE_S = 20.0
REST_S = 60.0
DELAY_S = 0.05
LOSS = 0.01
LEASE = "lease_s = 30"
GOAL_S = 10.0
"""For the queue to go on, whatever dies."""


class Trial:
    """One cluster, its work, and the blows that it takes."""

    def __init__(self, network: Network, options: Options) -> None:
        self.quick = options.quick
        self.tasks = options.tasks(TASKS, QUICK_TASKS)
        self.network = network
        self.machines: dict[str, Any] = network.machines
        homes = list(self.machines)[1 : 1 + (QUICK_HOMES if self.quick else HOMES)]
        self.judges = {name: judge_kit.Judge(self.machines[name]) for name in homes}
        self.jobs: dict[str, str] = {}
        self._blows: dict[str, tuple[str, float, float]] = {}
        """Whom each hurt, from when to when it was watched."""
        self._lines = Lines({name: each.state for name, each in self.machines.items()})
        self._begins = Begins({name: judge.path for name, judge in self.judges.items()})

    def submit(self) -> None:
        """Hand in the work; the second home accepts no connections."""
        tasks = self.tasks // len(self.judges)
        for name, judge in self.judges.items():
            home = self.machines[name]
            with home.client() as client:
                draft = home.draft(*judge.command(SLEEP_S), array=((1, tasks, 1),))
                self.jobs[name] = client.submit(draft).id
        until(lambda: all(self._begins.moments_s.values()), "work of all homes to begin")

    def blow(self, what: str, strike: Callable[[], str]) -> None:
        """Strike, and see how long nothing begins; `strike` returns which machine was hurt."""
        progress(f"{what}; {self._begins.count()} tasks have begun")
        if self._begins.count() >= self.tasks:
            raise RuntimeError(f"all tasks had begun before {what}: there were too few")
        began_s = time.monotonic()
        hurt = strike()
        before = self._begins.count()
        until(lambda: self._begins.count() > before, f"work to go on after {what}")
        time.sleep(QUICK_WATCH_S if self.quick else WATCH_S)
        self._blows[what] = hurt, began_s, time.monotonic()

    def pauses(self) -> dict[str, dict[str, float]]:
        """How long nothing began around each blow; once all is over, for what began afterwards."""
        found = {}
        for what, (hurt, began_s, ended_s) in self._blows.items():
            others = [name for name in self.judges if name != hurt]
            pauses = [self._begins.longest_pause_s([name], began_s, ended_s) for name in others]
            of_all = self._begins.longest_pause_s(self.judges, began_s, ended_s)
            found[what] = {"went_on_s": round(of_all, 2), "others_paused_s": round(max(pauses), 2)}
            progress(f"{what}: went on after {of_all:.1f} s, other homes {max(pauses):.1f} s")
        return found

    def kill_broker(self) -> str:
        """Kill the broker's daemon; its supervisor starts it again."""
        return self.kill(self.broker())

    def broker(self) -> str:
        """The machine that all follow."""
        return until(self._lines.agreed_broker, "all to follow one broker")

    def kill(self, machine: str) -> str:
        """Kill a machine's daemon; its supervisor starts it again."""
        self.machines[machine].kill("daemon")
        return machine

    def kill_nodes(self) -> str:
        """Kill three machines' daemons and launchers, of those that are no homes."""
        others = [m for n, m in self.machines.items() if n not in self.judges]
        for machine in others[-1 if self.quick else -3 :]:
            machine.kill("daemon")
            machine.kill("launcher")
        return ""

    def stop_broker(self) -> str:
        """Stop the broker for a while, and let it go on in its own time."""
        broker = self.broker()
        pid = self.machines[broker].pid("daemon")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_S)
        os.kill(pid, signal.SIGCONT)
        return broker

    def split(self) -> str:
        """Cut a third of the machines off for a while."""
        names = list(self.machines)
        part = [name for name in names if name not in self.judges][: len(names) // 3]
        self.network.switch.separate(part, [name for name in names if name not in part])
        time.sleep(SPLIT_S)
        self.network.switch.heal()
        return ""

    def strike(self) -> None:
        """All blows, one after the other, while tasks run."""
        a_home = next(iter(self.judges))
        self.blow("calm", lambda: "")
        self.blow("the broker was killed", self.kill_broker)
        self.blow("nodes were killed", self.kill_nodes)
        self.blow("a home was killed", lambda: self.kill(a_home))
        if not self.quick:
            self.blow("the broker was stopped", self.stop_broker)
            self.blow("the network was split", self.split)

    def count(self) -> dict[str, int]:
        """Wait for all, and raise unless every task ended well, once."""
        total = {"tasks": 0, "began": 0, "lost": 0}
        for name, job in self.jobs.items():
            home = self.machines[name]
            until(home.answers, f"{name} to answer")
            with home.client() as client:
                client.wait([job])
                for key, count in self.judges[name].decide(client, [job]).items():
                    total[key] += count
        self._begins.stop()
        return total


def judge(pauses: dict[str, dict[str, float]]) -> str:
    """`ok`, or after which blows the queue did not go on in time."""
    late = [what for what, each in pauses.items() if max(each.values()) > GOAL_S]
    return ", ".join(f"over {GOAL_S:.0f} s when {what}" for what in late) or "ok"


def main() -> None:
    """Run the trial once: it is judged, not measured to the millisecond."""
    options = read_options(str(__doc__))
    facts = machine_facts(Path(tempfile.gettempdir()))
    count = QUICK_MACHINES if options.quick else MACHINES
    with live_network(count, cpus=CPUS, jobs=LEASE, delay_s=DELAY_S, loss=LOSS) as made:
        network, whole_s = made
        settle_s, rest_s = (1.0, 2.0) if options.quick else (SETTLE_S, REST_S)
        rest = rest_figures(network, settle_s, rest_s)
        progress(f"at rest: {rest}")
        trial = Trial(network, options)
        began_s = time.monotonic()
        trial.submit()
        trial.strike()
        counts = trial.count()
        pauses = trial.pauses()
        finish(
            {
                "whole_s": round(whole_s, 1),
                "rest": rest,
                "finished_s": round(time.monotonic() - began_s, 1),
                "blows": pauses,
                "counts": counts,
                "judged": judge(pauses),
                "settings": {
                    "runs": 1,
                    "machines": count,
                    "homes": len(trial.jobs),
                    "delay_s": DELAY_S,
                    "loss": LOSS,
                    "task_s": SLEEP_S,
                },
                "machine": facts,
            }
        )


if __name__ == "__main__":
    main()
