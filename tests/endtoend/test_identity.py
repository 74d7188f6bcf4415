"""A cluster from the command line: made, agreed on, left; as people do it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iriai.client.remote import authenticated
from iriai.client.rpc_channel import ConnectionLost
from iriai.daemon.requests.cluster.authority import renew
from iriai.identity.cluster_state import ClusterState
from iriai.model.token_text import TokenKind, parse_token
from iriai.wire.requests import Jobs
from tests.endtoend.installation import IRIAI, Installation
from tests.support.people import People, TestPerson
from tests.support.waiting import until


@contextmanager
def machine(
    name: str,
    more: str = "",
    person: TestPerson | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[Installation]:
    """A machine of this host, found at a port of its own, where `person` hands jobs in."""
    installation = Installation(person, "--name", name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    installation.configure(f'[cluster]\nlisten = "{address}"\naddress = "{address}"\n{more}')
    try:
        installation.start(environment)
        yield installation
    finally:
        installation.stop()


@pytest.fixture
def ume() -> Iterator[Installation]:
    with machine("ume") as installation:
        yield installation


@pytest.fixture
def momo() -> Iterator[Installation]:
    with machine("momo") as installation:
        yield installation


def say(
    installation: Installation,
    *words: str,
    code: int = 0,
    text: str = "",
    more: dict[str, str] | None = None,
) -> dict:
    """What a command says; `more` are variables of its environment."""
    done = subprocess.run(
        [IRIAI, *words, "--state", str(installation.state), "--json"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | (more or {}),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_first_token_makes_a_cluster_and_tasks_go_on(ume: Installation):
    assert say(ume, "cluster", "show")["cluster"] == ""
    launcher = ume.pid("launcher")
    made = say(ume, "token", "--expires", "10m", "--machine", "momo")
    assert made["text"].startswith("iriai-join-")
    report = say(ume, "cluster", "show")
    assert (report["cluster"], report["machine"], report["is_issuer"]) == ("ume", "ume", True)
    assert ume.pid("launcher") == launcher
    (row,) = say(ume, "token", "--list")["rows"]
    assert (row["state"], row["words"]) == ("good", "for momo")
    (row,) = say(ume, "token", "--revoke", made["id"])["rows"]
    assert row["state"] == "revoked"


def test_what_the_cluster_agrees_on_is_edited_shown_and_survives_a_restart(
    ume: Installation, tmp_path: Path
):
    say(ume, "cluster", "create", "lab")
    rights = tmp_path / "rights.toml"
    rights.write_text("[groups.physics]\nright = 3\n")
    assert say(ume, "config", "edit", "--file", str(rights))["number"] == 1
    text = "[groups.physics]\nright = 4\n"
    assert say(ume, "config", "edit", "--file", "-", text=text)["number"] == 2
    ume.kill("daemon")
    until(ume.answers, "the next daemon")
    settings = {row["key"]: row for row in say(ume, "config", "show")["settings"]}
    right = settings["groups.physics.right"]
    assert (right["value"], right["source"]) == ("4", "cluster document 2")
    assert settings["order.burst"]["source"] == "default"
    problem = say(ume, "config", "edit", "--file", "-", text="[order]\nburts = 1\n", code=2)
    assert "did you mean burst?" in problem["error"]["hint"]
    assert say(ume, "cluster", "show")["document_number"] == 2


def test_a_machine_that_left_is_in_no_cluster(ume: Installation):
    say(ume, "cluster", "create", "lab")
    assert say(ume, "leave", code=3)["error"]["code"] == "still-an-issuer"
    assert say(ume, "leave", "--anyway")["cluster"] == "lab"
    assert say(ume, "cluster", "show")["cluster"] == ""
    assert not Path(ume.paths.cluster).exists()


def test_only_who_has_the_operators_key_throws_machines_out(ume: Installation):
    say(ume, "cluster", "create", "lab")
    assert say(ume, "eject", "ume", code=3)["error"]["code"] == "own-machine"
    assert say(ume, "eject", "momo", code=4)["error"]["code"] == "no-such-machine"
    say(ume, "eject", "momo", "--anyway", "--reason", "stolen")
    (row,) = say(ume, "cluster", "show")["ejected"]
    assert (row["machine"], row["reason"]) == ("momo", "stolen")
    key = Path(ume.paths.operator)
    key.rename(key.with_name("operator.away"))
    assert say(ume, "eject", "kaki", "--anyway", code=5)["error"]["code"] == "no-operator"


def join(newcomer: Installation, token: str, *more: str, code: int = 0) -> dict:
    return say(newcomer, "join", "--token", token, *more, code=code)


def new_token(ume: Installation, *words: str) -> str:
    return say(ume, "token", *words)["text"]


def test_a_machine_joins_and_both_see_each_other(ume: Installation, momo: Installation):
    token = new_token(ume)
    joined = join(momo, token)
    assert (joined["machine"], joined["cluster"]) == ("momo", "ume")
    assert joined["members"][0] == "ume"
    report = say(momo, "cluster", "show")
    assert (report["cluster"], report["issuer"], report["is_issuer"]) == ("ume", "ume", False)
    until(lambda: "momo" in say(ume, "cluster", "show")["machines"], "ume to know momo")

    state = ClusterState(momo.paths.cluster)
    before = state.identity.certificate.der
    renew(state, [parse_token(token, TokenKind.JOIN).addresses[0]])
    assert ClusterState(momo.paths.cluster).identity.certificate.der != before

    assert join(momo, token, code=3)["error"]["code"] == "already-member"
    (row,) = say(ume, "token", "--list")["rows"]
    assert (row["state"], row["words"]) == ("used", "by momo")


def test_what_does_not_let_a_machine_in_is_named_and_writes_nothing(
    ume: Installation, momo: Installation
):
    used = new_token(ume)
    with machine("kaki") as kaki:
        join(kaki, used)
    ended = new_token(ume, "--expires", "0.1")
    address = parse_token(used, TokenKind.JOIN).addresses[0]
    for words, token, code in [
        ((), used, "token-used"),
        ((), ended, "token-expired"),
        ((), new_token(ume, "--machine", "nashi"), "token-for-another"),
    ]:
        problem = join(momo, token, *words, code=3)["error"]
        assert problem["code"] == code
        assert problem["hint"]
    forged = parse_token(used, TokenKind.JOIN)._replace(fingerprint="00" * 32).text
    assert join(momo, forged, code=3)["error"]["code"] == "foreign-authority"
    assert join(momo, used[:-3], code=2)["error"]["code"] == "bad-token"
    nobody = join(momo, used, address.rsplit(":")[0] + ":1", code=6)["error"]
    assert nobody["code"] == "unreachable"
    assert not Path(momo.paths.cluster).exists()


def test_a_configuration_and_an_ejection_reach_every_machine(ume: Installation, momo: Installation):
    join(momo, new_token(ume))
    say(ume, "config", "edit", "--file", "-", text="[groups.physics]\nright = 3\n")
    until(lambda: document_number(momo) == 1, "momo to go by the document")
    say(ume, "eject", "momo", "--reason", "sold")
    refused = "no machine of a cluster talks to momo"
    until(lambda: [row["machine"] for row in ejected(ume)] == ["momo"], refused)
    until(lambda: not has_link(ume, "momo"), "the link to be closed")


def document_number(installation: Installation) -> int | None:
    if not installation.answers():  # it begins anew
        return None
    return say(installation, "cluster", "show")["document_number"]


def ejected(installation: Installation) -> list[dict]:
    return say(installation, "cluster", "show")["ejected"]


def has_link(installation: Installation, machine: str) -> bool:
    rows = say(installation, "status")["links"]
    return any(row["machine"] == machine and row["is_up"] for row in rows)


@pytest.mark.root
def test_a_person_elsewhere_is_the_user_whose_token_it_is(ume: Installation, people: People):
    say(ume, "cluster", "create", "lab")
    token = say(ume, "token", "--user", people.ann.name)["text"]

    def ask(*words: str, token: str = token) -> tuple[int, dict]:
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "IRIAI_TOKEN": token}
        done = subprocess.run(
            [IRIAI, "--json", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    assert ask("jobs")[0] == 0
    code, submitted = ask("submit", "--chdir", "/tmp", "--no-check", "--", "true")
    assert code == 0, submitted
    assert submitted["id"] == "ume-1"
    assert ask("show", "ume-1")[1]["row"]["user"] == people.ann.name
    assert ask("down")[0] != 0
    assert ume.answers()
    say(ume, "token", "--revoke", parse_token(token, TokenKind.USER).id)
    code, refused = ask("jobs")
    assert (code, refused["error"]["code"]) == (3, "token-revoked")


@pytest.mark.root
def test_who_is_connected_is_cut_off_when_the_token_is_revoked(ume: Installation, people: People):
    say(ume, "cluster", "create", "lab")
    token = say(ume, "token", "--user", people.ann.name)["text"]
    channel = authenticated(parse_token(token, TokenKind.USER))
    assert channel.ask(Jobs()).rows == ()
    say(ume, "token", "--revoke", parse_token(token, TokenKind.USER).id)
    with pytest.raises(ConnectionLost):
        channel.await_end()
    channel.close()


def test_a_second_operator_signs_for_the_cluster_until_removed(ume: Installation, tmp_path: Path):
    say(ume, "cluster", "create", "lab")
    bob = {"IRIAI_OPERATOR": str(tmp_path / "bob")}
    word = say(ume, "operator", "request", "--name", "bob", more=bob)["word"]
    refused = say(ume, "eject", "momo", "--anyway", code=5, more=bob)
    assert refused["error"]["code"] == "no-operator-yet"
    say(ume, "operator", "add", word)
    shown = say(ume, "operator", "show")
    assert (shown["operators"][1:], shown["named"]) == (["bob"], ["ume"])
    say(ume, "eject", "momo", "--anyway", more=bob)
    assert ejected(ume)[0]["operator"] == "bob"
    for number in range(2, 6):
        say(ume, "token", "--machine", f"m{number}", "--issuer", more=bob)
    sixth = say(ume, "token", "--machine", "m6", "--issuer", code=3)["error"]
    assert sixth["code"] == "too-many-issuers"
    assert "m5" in sixth["message"]
    assert say(ume, "operator", "remove", "bob")["signed_anew"] == 1
    assert ejected(ume)[0]["operator"] != "bob"
    refused = say(ume, "eject", "kaki", "--anyway", code=3, more=bob)
    assert refused["error"]["code"] == "not-an-operator-now"
    own = say(ume, "operator", "show")["operators"]
    assert say(ume, "operator", "remove", own[0], code=3)["error"]["code"] == "own-key"
