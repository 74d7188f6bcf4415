"""A cluster from the command line: made, agreed on, left; as people do it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend.installation import IRIAI, Installation


@pytest.fixture
def ume() -> Iterator[Installation]:
    installation = Installation(None, "--name", "ume")
    installation.start()
    try:
        yield installation
    finally:
        installation.stop()


def say(installation: Installation, *words: str, code: int = 0, text: str = "") -> dict:
    done = subprocess.run(
        [IRIAI, *words, "--state", str(installation.state), "--json"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
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
