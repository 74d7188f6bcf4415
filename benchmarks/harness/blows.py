"""Work of several homes on a live cluster, and the blows that it takes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from harness.begins import Begins
from harness.lines import Lines
from harness.live_network import Network, judge_kit, until
from harness.report import progress

PROCESSES = ("supervisor", "daemon", "launcher")
"""Of one machine, in the order in which they are killed: nobody is left to start another again."""
HOME_DOWN_S = 5.0
"""Between the end of a home and its start: for as long nobody knows of its jobs."""


class Blow(NamedTuple):
    """One of them, as it was watched from outside."""

    hurt: Sequence[str]
    """The machines that it took, or cut off."""
    began_s: float
    ended_s: float


def account_each(machines: int) -> str:
    """Configuration by which each home hands in for an account of its own.

    Work of one account goes in the order in which it came: one home would wait for another.
    """
    rights = "\n".join(f"m{number} = 1" for number in range(machines))
    groups = f"[groups.lab.users]\n{rights}\n"
    return f'[identity]\nname_accounts = true\ndefault_group = "lab"\n{groups}'


class Trial:
    """One cluster, its work, and whoever hurts it. Broker, home and nodes die with `kill -9`."""

    def __init__(
        self, network: Network, homes: int, tasks: int, task_s: float, watch_s: float
    ) -> None:
        """Hand in `tasks` of `task_s` seconds at so many homes, one of which takes no connections.

        What a blow does shows within `watch_s` after it.
        """
        self.machines: dict[str, Any] = network.machines
        closed = [name for name, each in self.machines.items() if each.is_outward_only]
        self.open = [name for name in self.machines if name not in closed]
        names = sorted([closed[0], *self.open[1:homes]], key=list(self.machines).index)
        self.judges = {name: judge_kit.Judge(self.machines[name]) for name in names}
        self.tasks = tasks // homes * homes
        self._network = network
        self._watch_s = watch_s
        self._blows: dict[str, Blow] = {}
        self._lines = Lines({name: each.state for name, each in self.machines.items()})
        self._begins = Begins({name: judge.path for name, judge in self.judges.items()})
        self._jobs = {name: self._submit(name, tasks // homes, task_s) for name in names}
        until(lambda: all(self._begins.moments_s.values()), "work of all homes to begin")

    def _submit(self, name: str, tasks: int, task_s: float) -> str:
        home = self.machines[name]
        with home.client() as client:
            words, array = self.judges[name].command(task_s), ((1, tasks, 1),)
            draft = home.draft(*words, account=name, array=array)
            job: str = client.submit(draft).id
            return job

    def blow(
        self,
        what: str,
        strike: Callable[[], Sequence[str]],
        mend: Callable[[str], None] | None = None,
    ) -> None:
        """Strike, see how long nothing begins, and `mend` what was hurt.

        `strike` returns the machines that it hurt.
        """
        progress(f"{what}; {self._begins.count()} tasks have begun")
        if self._begins.count() >= self.tasks:
            raise RuntimeError(f"all tasks had begun before {what}: there were too few")
        began_s = time.monotonic()
        hurt = strike()
        before = self._begins.count()
        until(lambda: self._begins.count() > before, f"work to go on after {what}")
        time.sleep(self._watch_s)
        self._blows[what] = Blow(hurt, began_s, time.monotonic())
        if mend is not None:
            for name in hurt:
                mend(name)

    def pauses(self) -> dict[str, dict[str, object]]:
        """How long nothing began around each blow; once all is over, for what began afterwards."""
        found: dict[str, dict[str, object]] = {}
        for what, (hurt, began_s, ended_s) in self._blows.items():
            others = [name for name in self.judges if name not in hurt]
            pauses = [self._begins.longest_pause_s([name], began_s, ended_s) for name in others]
            of_all = self._begins.longest_pause_s(self.judges, began_s, ended_s)
            found[what] = {
                "hurt": list(hurt),
                "went_on_s": round(of_all, 2),
                "others_paused_s": round(max(pauses), 2),
            }
            progress(f"{what}: went on after {of_all:.1f} s, other homes {max(pauses):.1f} s")
        return found

    def broker(self) -> str:
        """The machine that all follow."""
        return until(self._lines.agreed_broker, "all to follow one broker")

    def kill(self, *machines: str) -> Sequence[str]:
        """Kill all processes of these; nothing starts them again."""
        for name in machines:
            for process in PROCESSES:
                self.machines[name].kill(process)
            self._lines.forget(name)
        return machines

    def start_again(self, machine: str) -> None:
        """Start what was killed, and wait until it works."""
        self.machines[machine].begin()
        until(self.machines[machine].runs_tasks, f"{machine} to work again")

    def kill_nodes(self, count: int) -> Sequence[str]:
        """Kill machines that are neither home nor broker, some of them behind their firewall."""
        broker = self.broker()
        others = [name for name in self.machines if name not in self.judges and name != broker]
        return self.kill(*others[-count:])

    def kill_home(self) -> Sequence[str]:
        """Kill a home that is not the broker, and start it again after a while."""
        broker = self.broker()
        home = next(name for name in self.judges if name != broker)
        self.kill(home)
        time.sleep(HOME_DOWN_S)
        self.start_again(home)
        return [home]

    def stop_broker(self, stop_s: float) -> Sequence[str]:
        """Stop the broker for a while, and let it go on in its own time."""
        broker = self.broker()
        with self.machines[broker].stopped():
            time.sleep(stop_s)
        return [broker]

    def split(self, split_s: float) -> Sequence[str]:
        """Cut a third of the machines off for a while, with the broker and a home among them.

        Nobody is hurt: on both sides the homes have machines and, soon, a broker.
        """
        broker = self.broker()
        home = broker if broker in self.judges else [n for n in self.judges if n in self.open][-1]
        rest = [name for name in self.machines if name not in (broker, *self.judges)]
        part = list(dict.fromkeys((broker, home, *rest)))[: len(self.machines) // 3]
        others = [name for name in self.machines if name not in part]
        progress(f"cut off: {', '.join(part)}")
        self._network.switch.separate(part, others)
        time.sleep(split_s)
        self._network.switch.heal()
        return []

    def whole_again_s(self) -> float:
        """Wait until all see all and follow one broker; how long that took."""
        began_s = time.monotonic()
        until(self._network.is_whole, "all to see all again", 0.2)
        return time.monotonic() - began_s

    def count(self) -> dict[str, int]:
        """Wait for all, and raise unless every task ended well, once."""
        total = {"tasks": 0, "began": 0, "lost": 0}
        for name, job in self._jobs.items():
            home = self.machines[name]
            until(home.answers, f"{name} to answer")
            with home.client() as client:
                client.wait([job])
                for key, count in self.judges[name].decide(client, [job]).items():
                    total[key] += count
            progress(f"all tasks of {name} ended well, once")
        self._begins.stop()
        return total
