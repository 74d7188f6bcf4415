"""Whose tasks a machine of a cluster runs: its owner's rules, root, users that it does not know."""

import os
import subprocess
from pathlib import Path

import pytest

from iriai.client import Client, draft
from iriai.wire.changes import AskStory
from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root

RULES = """
[homes]
ume = ["{ann}", "{eve}", "root"]
"""
WITHOUT_SOME = ("unshare", "--mount", "sh", "-c", 'mount --bind {} /etc && exec "$@"', "sh")
"""A command that sees other users than this host has.

The folder is mounted, not its file: the kernel takes a mount away where the host puts another file
in the place of what is mounted on, as each change of its users does.
"""


@pytest.fixture(scope="module")
def network(people, tmp_path_factory):
    made = Network(people.ann)
    ume, take = (made.add(name, cpus=2) for name in ("ume", "take"))
    known = tmp_path_factory.mktemp("users") / "etc"
    subprocess.run(["cp", "--archive", "/etc", known], check=True)
    lines = (known / "passwd").read_text().splitlines(keepends=True)
    others = [line for line in lines if not line.startswith(f"{people.eve.name}:")]
    (known / "passwd").write_text("".join(others))
    take.prefix += tuple(word.format(known) for word in WITHOUT_SOME)
    _add(take, RULES.format(ann=people.ann.name, eve=people.eve.name))
    _add(ume, "[identity]\nminimum_uid = 0\n")
    try:
        yield made.start()
    finally:
        made.stop()


def _add(machine, text: str) -> None:
    file = Path(machine.paths.configuration)
    file.write_text(file.read_text() + text)


ON_TAKE = 'Machine == "take"'


def test_a_machine_refuses_whom_its_owner_does_not_let_in_and_says_so(network, people):
    ume = network.machines["ume"]
    expected = {
        people.bob: f"it takes no tasks of {people.bob.name} from home ume",
        people.eve: f"user {people.eve.name} does not exist here",
    }
    for person, words in expected.items():
        with ume.client(person) as client:
            job = client.submit(
                ume.draft("true", cwd="/tmp", output=os.devnull, requirements=ON_TAKE)
            ).id
            assert_refused(client, job, words)
            client.cancel([job])


def assert_refused(client: Client, job: str, words: str) -> None:
    """The machine is named with what it said, and asked no second time."""

    def said() -> dict[str, str]:
        return {r.machine: r.had for r in client.why(job).reasons if r.rule == "user-not-allowed"}

    until(lambda: said() == {"take": words}, f"'{words}'")
    tried = [row for row in client.ask(AskStory(job)).rows if words in row.text]
    assert len(tried) == 1


def test_nobody_is_root_from_elsewhere(network):
    ume = network.machines["ume"]
    with Client.connect(ume.state) as root:  # the tests are root
        job = root.submit(
            draft(("id", "-u"), cwd="/tmp", output=os.devnull, requirements=ON_TAKE)
        ).id
        assert_refused(root, job, "no task that was submitted elsewhere runs as root")
        root.cancel([job])


def test_others_run_there_meanwhile_as_themselves(network, people):
    ume = network.machines["ume"]
    with ume.client() as client:
        command = ume.draft("id", "-un", output="who", requirements=ON_TAKE)
        job = client.submit(command).id
        [outcome] = client.wait([job])
        assert outcome.cause == "completed"
        [attempt] = client.show(job).attempts
    assert attempt.machine == "take"
    assert (ume.work / "who").read_text() == f"{people.ann.name}\n"
