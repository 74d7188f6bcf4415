"""Machines of a cluster, each in a network namespace of its own, as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count

from iriai.client import Client
from iriai.model.problem import Problem
from iriai.wire.joining import MakeToken
from iriai.wire.reports import StatusReport
from tests.endtoend.bridge import Bridge
from tests.endtoend.cluster import IDLE
from tests.endtoend.installation import CALL_WAIT_S, Installation
from tests.endtoend.switch import Switch
from tests.support.people import TestPerson
from tests.support.waiting import until

PORT = 6174
STARTED_AT_ONCE = 8
"""Machines that come up together: sixty that all start at one time start slower than in turn."""
TOKEN_LIFETIME_S = 3600.0
_PAUSE_S = 0.1
"""Whoever asks many machines keeps them busy, and the switch waiting."""
_SERIALS = count(1)
"""Of networks of this process: two may be there at a time."""
MACHINES_MAX = 100
"""Of one network. The kernel has one table for the neighbours of all namespaces, of some thousand
that it found out itself: thirty machines that know each other fill it. So all are told before."""
CONFIGURATION = """
[machine]
cpus = {cpus}
load_file = "{load_file}"
[cluster]
{cluster}
[jobs]
kill_grace_s = 1
{jobs}
{more}
"""
NO_INBOUND = """
table inet iriai {
  chain in {
    type filter hook input priority 0; policy drop;
    iif lo accept
    ct state established,related accept
    meta l4proto { icmp, ipv6-icmp } accept
  }
}
"""


class Networked(Installation):
    """One machine, in a namespace of its own."""

    is_outward_only = False
    """Whether it accepts no connections."""
    join_options: tuple[str, ...] = ()
    """Of `iriai join`, beside token and name."""

    def __init__(self, person: TestPerson | None, name: str, namespace: str, host: str) -> None:
        super().__init__(person, "--name", name)
        self.name = name
        self.namespace = namespace
        self.host = host
        self.prefix = ("nsenter", f"--net=/var/run/netns/{namespace}", "--")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Meanwhile its daemon is stopped (SIGSTOP)."""
        until(self.answers, "the daemon, which may just have been killed")
        pid = self.pid("daemon")
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def as_root(self, *words: str) -> str:
        """What `iriai WORDS` prints, as root on this machine; it has to succeed."""
        said = subprocess.run(
            [*self.prefix, self.program, *words],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=CALL_WAIT_S,
            check=False,
        )
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout

    def join_with(self, token: str) -> None:
        """Become a member, before the daemon is started."""
        self.as_root("join", "--token", token, "--name", self.name, *self.join_options)

    def status(self) -> StatusReport | None:
        """What its daemon says of itself; None where it does not answer."""
        try:
            with Client.connect(self.state, follow=False) as client:
                return client.status()
        except Problem:
            return None

    def sees(self) -> list[str]:
        """The other members that it takes for alive."""
        report = self.status()
        return [m.name for m in report.members if m.state == "alive"] if report else []

    def follows(self) -> str:
        """Whom it takes for the broker; empty where it knows none, or does not answer."""
        report = self.status()
        return report.broker if report else ""

    def runs_tasks(self) -> bool:
        """Whether its daemon answers and has a launcher; links come and go."""
        report = self.status()
        return report is not None and report.launcher_pid is not None


class Network:
    """A cluster; the first machine lets the others in. Needs root. Ended after the test."""

    def __init__(
        self,
        person: TestPerson | None,
        seed: int = 0,
        switch: Bridge | None = None,
        *,
        trusts_all: bool = True,
    ) -> None:
        """`switch` is what connects them: without one, a `Switch` that can delay and lose.

        `trusts_all`: whether every home speaks for everybody; else the first one alone.
        """
        self.person = person
        self.trusts_all = trusts_all
        self.switch = switch or Switch(seed)
        self.machines: dict[str, Networked] = {}
        self._serial = next(_SERIALS)

    def add(
        self,
        name: str,
        *,
        outward_only: bool = False,
        cpus: int = 2,
        jobs: str = "",
        more: str = "",
        broker: str = "",
        cluster: str = "",
    ) -> Networked:
        """One more machine, not started.

        `broker` names the head of a cluster that has one, `cluster` that of a site with several.
        `jobs` are lines of `[jobs]`, `more` other sections of its configuration.
        """
        namespace = f"iriai-{os.getpid()}-{self._serial}-{name}"
        number = len(self.machines) + 1
        assert number <= MACHINES_MAX
        host = _host(number)
        _run("ip", "netns", "add", namespace)
        machine = self.machines[name] = Networked(self.person, name, namespace, host)
        self.switch.plug(name, namespace)
        inside = ("ip", "-n", namespace)
        _run(*inside, "link", "set", "eth0", "address", _hardware_address(number))
        _run(*inside, "address", "add", f"{host}/24", "dev", "eth0")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "set", "eth0", "up")
        others = [each for each in range(1, MACHINES_MAX + 1) if each != number]
        _run(*inside, "-batch", "-", text="".join(map(_neighbour, others)))
        machine.is_outward_only = outward_only
        if outward_only:
            _run(*machine.prefix, "nft", "-f", "-", text=NO_INBOUND)
        load_file = machine.directory / "loadavg"
        load_file.write_text(IDLE)
        where = "outward_only = true" if outward_only else f'address = "{host}:{PORT}"'
        if broker:
            where += f'\nbroker = "{broker}"'
        if cluster:
            where += f'\nname = "{cluster}"'
        machine.configure(
            CONFIGURATION.format(
                cpus=cpus, load_file=load_file, cluster=where, jobs=jobs, more=more
            )
        )
        return machine

    def start(self) -> Network:
        """Found the cluster, let everybody join, bring all up; all see all on return."""
        first, *others = self.machines.values()
        first.start()
        tokens = list(self._tokens(first, len(others)))
        until(first.runs_tasks, "the first machine, in a cluster now")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Networked.join_with, others, tokens))
        for number in range(0, len(others), STARTED_AT_ONCE):
            batch = others[number : number + STARTED_AT_ONCE]
            for machine in batch:
                machine.begin()
            for machine in batch:
                until(machine.runs_tasks, f"{machine.name} to come up", _PAUSE_S)
        until(self.is_whole, "all to see all", _PAUSE_S)
        return self

    def is_whole(self) -> bool:
        """Whether every machine sees every other, and all of a cluster follow one broker."""
        names = set(self.machines)
        clusters, followed = set(), set()
        for machine in reversed(self.machines.values()):  # who came last knows least
            report = machine.status()
            if report is None or names - {report.home} != {m.name for m in report.members}:
                return False
            clusters.add(report.cluster_name)
            followed.add((report.cluster_name, report.broker))
        return len(followed) == len(clusters)

    def token(self, machine: Networked) -> str:
        """One to join with, through this machine."""
        words = ("token", "--address", f"{machine.host}:{PORT}", "--json")
        return str(json.loads(machine.as_root(*words))["text"])

    def _tokens(self, first: Networked, count: int) -> Iterator[str]:
        """So many; the first of them makes the cluster."""
        if count:
            yield self.token(first)
        until(first.answers, "the first machine, which began anew")
        if count and self.trusts_all:
            first.as_root("trust", "*", "--users", "all")
        address = f"{first.host}:{PORT}"
        with Client.connect(first.state, follow=False) as client:
            for _ in range(count - 1):
                yield client.ask(MakeToken("join", TOKEN_LIFETIME_S, address=address)).text

    def stop(self) -> None:
        """End everything; raises where something was left over or crashed."""
        with ExitStack() as stack:
            stack.callback(self.switch.close)
            for machine in self.machines.values():
                stack.callback(_run, "ip", "netns", "delete", machine.namespace)
                stack.callback(machine.stop)


def _host(number: int) -> str:
    return f"10.77.0.{number}"


def _hardware_address(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def _neighbour(number: int) -> str:
    """A line for `ip -batch`: where the machine of this number is."""
    address = _hardware_address(number)
    return f"neighbour add {_host(number)} lladdr {address} dev eth0 nud permanent\n"


def _run(*command: str, text: str = "") -> None:
    subprocess.run(command, input=text, text=True, check=True, capture_output=True, timeout=60)
