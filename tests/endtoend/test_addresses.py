"""Machines that no name service knows: they join, link and work by their addresses alone."""

import subprocess

import pytest

from iriai.model.token_text import TokenKind, parse_token
from tests.endtoend.installation import CALL_WAIT_S, IRIAI, PYTHON
from tests.endtoend.network import Network, Networked
from tests.support.waiting import until

pytestmark = pytest.mark.root

CONFIGURATION = """
[machine]
cpus = 2
load_file = "{load_file}"
[jobs]
kill_grace_s = 1
[cluster]
outward_only = {outward_only}
"""
ALONE = """
for each in hosts resolv.conf; do mount --bind /dev/null /etc/$each; done
hostname {name}
exec "$@"
"""

FORWARDER = """
import socket, subprocess, sys, threading
# Forwards two connections to the machine named; then no more can be opened to it.
CHAIN = "type filter hook output priority 0; policy accept;"
RULE = f"ip daddr {sys.argv[1]} tcp flags & (syn | ack) == syn drop"
RULES = f"table inet other {{ chain out {{ {CHAIN} {RULE}\\n}}\\n}}"
listener = socket.create_server(("127.0.0.1", 7000))
print("ready", flush=True)
def copy(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
for number in (1, 2):
    here, _ = listener.accept()
    there = socket.create_connection((sys.argv[1], 6174))
    if number == 2:
        subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
        listener.close()
    ways = [threading.Thread(target=copy, args=pair) for pair in ((here, there), (there, here))]
    [way.start() for way in ways]
[way.join() for way in ways]
"""


@pytest.fixture
def network(person):
    made = Network(person)
    yield made
    made.stop()


def failed_join(machine: Networked, address: str, text: str) -> subprocess.CompletedProcess[str]:
    """`iriai join`, which is to fail."""
    return subprocess.run(
        [*machine.prefix, IRIAI, "join", address, "--token", text],
        capture_output=True,
        text=True,
        env=machine.environment(),
        timeout=CALL_WAIT_S,
        check=False,
    )


def nameless(network: Network, name: str, *, outward_only: bool = False) -> Networked:
    """A machine that is up, and neither knows names of others nor has one that others know."""
    machine = network.add(name, outward_only=outward_only)
    hidden = ("unshare", "--mount", "--uts", "sh", "-ec", ALONE.format(name=name), "sh")
    machine.prefix = (*machine.prefix, *hidden)
    machine.configure(
        CONFIGURATION.format(
            load_file=machine.directory / "loadavg", outward_only=str(outward_only).lower()
        )
    )
    machine.start()
    return machine


def token(machine: Networked) -> str:
    """One to join with, as `iriai token` prints it."""
    line = next(each for each in machine.as_root("token").splitlines() if "--token" in each)
    until(machine.runs_tasks, "its daemon, which is a member now")
    return line.split()[-1]


def link(machine: Networked, other: str) -> str:
    """How the machine is linked with the other: network, relay; empty where it is not."""
    report = machine.status()
    rows = report.links if report else ()
    return next((row.way for row in rows if row.machine == other and row.is_up), "")


def ran_on(machine: Networked, count: int = 4) -> set[str]:
    """Where tasks ran that were submitted on this machine."""
    with machine.client() as client:
        job = client.submit(machine.draft("sleep", "1", array=((1, count, 1),))).id
        [outcome] = client.wait([job])
        assert outcome.cause == "completed"
        return {row.machine for row in client.show(job).attempts}


def test_two_machines_without_a_name_service_join_by_address_and_work_together(network):
    ume, momo = nameless(network, "ume"), nameless(network, "momo")
    said = momo.as_root("join", f"{ume.host}:6174", "--token", token(ume))
    assert "momo is a member of cluster" in said
    assert "momo is linked with ume." in said
    until(lambda: ume.sees() == ["momo"] and momo.sees() == ["ume"], "each to see the other")
    ume.as_root("trust", "*", "--users", "all")
    until(lambda: ran_on(ume) == {"ume", "momo"}, "a task of ume on momo")


def test_a_token_alone_leads_to_its_machine(network):
    ume, momo = nameless(network, "ume"), nameless(network, "momo")
    text = token(ume)
    assert parse_token(text, TokenKind.JOIN).addresses[0] == f"{ume.host}:6174"
    assert "momo is linked with ume." in momo.as_root("join", "--token", text)


def test_a_machine_whose_address_changed_tells_the_new_one_and_is_found_across_a_relay(network):
    ume = nameless(network, "ume")
    kiku = nameless(network, "kiku", outward_only=True)
    ran = nameless(network, "ran", outward_only=True)
    for each in (kiku, ran):
        each.as_root("join", f"{ume.host}:6174", "--token", token(ume))
    ume.as_root("trust", "*", "--users", "all")
    until(lambda: ran_on(kiku, 12) == {"ume", "kiku", "ran"}, "tasks of kiku on ran")
    assert link(kiku, "ran") == "relay"
    momo = nameless(network, "momo")
    momo.as_root("join", f"{ume.host}:6174", "--token", token(ume))
    moved = "10.77.0.200"
    inside = ("ip", "-n", ume.namespace, "address")
    for words in (("del", f"{ume.host}/24", "dev", "eth0"), ("add", f"{moved}/24", "dev", "eth0")):
        subprocess.run([*inside, *words], check=True, timeout=CALL_WAIT_S)
    until(lambda: link(momo, "ume") == "network" and momo.sees() != [], "the link again")

    def told() -> bool:
        report = momo.status()
        members = report.members if report else ()
        return any(m.name == "ume" and m.addresses[0] == f"{moved}:6174" for m in members)

    until(told, "the new address at another machine")


def test_a_join_names_each_address_that_was_tried_and_what_is_in_the_way(network):
    ume, momo = nameless(network, "ume"), nameless(network, "momo")
    text = token(ume)
    words = (*momo.prefix, PYTHON, "-c", FORWARDER, ume.host)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as forwarder:
        assert forwarder.stdout is not None
        assert forwarder.stdout.readline() == b"ready\n"
        said = failed_join(momo, "127.0.0.1:7000", text)
    assert said.returncode == 6
    for words in (
        "momo is a member of cluster",
        "no answer from 127.0.0.1:7000 (Connection refused)",
        f"{ume.host}:6174 does not answer within 3 s",
        "no answer from ume:6174 (Temporary failure in name resolution)",
        "[cluster] address",
    ):
        assert words in said.stderr, said.stderr


def test_an_address_where_nobody_answers_is_named(network):
    ume, momo = nameless(network, "ume"), nameless(network, "momo")
    said = failed_join(momo, "10.77.0.1:1", token(ume))
    assert said.returncode == 6
    assert "no answer from 10.77.0.1:1 (Connection refused)" in said.stderr
    assert momo.answers()
    assert momo.sees() == []
