"""Queues, pools and gangs of real daemons, changed live by operators, also by two at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend.installation import IRIAI, Installation, ended_afterwards
from tests.endtoend.test_identity import join, machine, new_token, say
from tests.support.waiting import until

TEXT = """\
# What the staff agreed on.
[queues.1]   # by day
state = "enabled"   # until Monday

# By night.
[queues.2]
time_limit_max_s = "4h"
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[Installation, Installation, dict[str, str]]]:
    """Two machines of one cluster, and the variables of its second operator."""
    key = tmp_path_factory.mktemp("operator") / "bob"
    more = "[identity]\nminimum_uid = 0\n"
    with machine("ume", more) as ume, machine("momo", more) as momo:
        say(ume, "cluster", "create", "lab")
        join(momo, new_token(ume))
        bob = {"IRIAI_OPERATOR": str(key)}
        word = say(ume, "operator", "request", "--name", "bob", more=bob)["word"]
        say(ume, "operator", "add", word)
        until(lambda: "bob" in say(momo, "operator", "show")["operators"], "momo to know bob")
        yield ume, momo, bob


def shown(installation: Installation) -> dict[str, dict]:
    return {row["key"]: row for row in say(installation, "config", "show")["settings"]}


def value(installation: Installation, key: str) -> str | None:
    row = shown(installation).get(key)
    return row and row["value"]


def text(installation: Installation) -> str:
    return say(installation, "cluster", "show")["document"]


def test_a_setting_is_the_next_document_and_no_daemon_restarts(pair):
    ume, momo, bob = pair
    daemons = [each.pid("daemon") for each in (ume, momo)]
    number = say(ume, "config", "edit", "--file", "-", text=TEXT)["number"]
    made = say(ume, "queue", "set", "1", "state=active", "cpu_limit_s=60")
    assert made == {
        "section": "queues",
        "name": "1",
        "settings": {"state": "active", "cpu_limit_s": "60"},
        "document": number + 1,
    }
    assert text(ume) == TEXT.replace(
        '"enabled"   # until Monday\n', '"active"   # until Monday\ncpu_limit_s = 60\n'
    )
    until(lambda: value(momo, "queues.1.cpu_limit_s") == "60", "momo to go by it")
    assert shown(momo)["queues.1.state"]["source"] == f"cluster document {number + 1}"
    say(momo, "gang", "set", "quantum_s=0.5", more=bob)
    say(momo, "pool", "set", "blades", "jobs_max=8", more=bob)
    until(lambda: value(ume, "pools.blades.jobs_max") == "8", "ume to go by both")
    assert value(ume, "gang.quantum_s") == "0.5"
    say(ume, "gang", "unset")
    until(lambda: value(momo, "gang.quantum_s") == "1", "the default on momo")
    assert "# By night.\n[queues.2]" in text(momo)
    assert [each.pid("daemon") for each in (ume, momo)] == daemons
    log = (Path(ume.paths.log) / "daemon.log").read_text()
    assert f"cluster document {number + 2} of operator bob arrived" in log
    assert "gang.quantum_s is 0.5" in log


def test_of_two_operators_at_once_neither_loses_a_key(pair):
    ume, momo, bob = pair
    keys = [f"{key}={number}m" for number in range(11, 15) for key in KEYS]
    with ended_afterwards() as started:
        for installation, number, more in ((ume, 5, {}), (momo, 5, bob)):
            for setting in keys[::2] if installation is ume else keys[1::2]:
                started.append(setting_of(installation, number, setting, more))
        for process in started:
            assert process.wait(120) == 0, process.stderr.read() if process.stderr else ""
    for installation in pair[:2]:
        until(
            lambda each=installation: all(value(each, f"queues.5.{key}") for key in KEYS),
            "both keys everywhere",
        )
    assert not say(ume, "cluster", "show")["conflicts"]
    assert not say(momo, "cluster", "show")["conflicts"]
    assert text(ume) == text(momo)


KEYS = ("time_limit_s", "time_limit_max_s")


def setting_of(
    installation: Installation, number: int, setting: str, more: dict[str, str]
) -> subprocess.Popen[str]:
    """Begin to set a key of a queue."""
    words = [IRIAI, "queue", "set", str(number), setting, "--state", str(installation.state)]
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=installation.environment() | more,
    )


def test_what_is_wrong_in_a_cluster_is_said_and_changes_nothing(pair, tmp_path):
    ume, _, _ = pair
    before = say(ume, "cluster", "show")["document_number"]
    for words, code, exit_code in [
        (("queue", "set", "1", "colour=red"), "bad-setting", 2),
        (("queue", "set", "1", "state"), "bad-setting", 2),
        (("queue", "set", "64", "state=active"), "no-such-queue", 4),
        (("gang", "set", "quantum_s=0"), "bad-setting", 2),
        (("pool", "set", "a/b", "jobs_max=1"), "bad-setting", 2),
    ]:
        assert say(ume, *words, code=exit_code)["error"]["code"] == code
    nobody = {"IRIAI_OPERATOR": str(tmp_path / "nobody")}
    refused = say(ume, "queue", "set", "1", "state=active", code=5, more=nobody)
    assert refused["error"]["code"] == "no-operator"
    say(ume, "queue", "set", "9", "state=enabled")
    with ume.client() as client:
        job = client.submit(ume.draft("sleep", "600", queue=9, output=os.devnull)).id
    until(lambda: say(ume, "queues")["rows"][9]["jobs"] == 1, "the job in its queue")
    refused = say(ume, "queue", "unset", "9", code=3)["error"]
    assert refused["code"] == "queue-not-empty"
    say(ume, "queue", "set", "9", "state=active")
    until(lambda: say(ume, "queues")["rows"][9]["running"] == 1, "the job to run")
    refused = say(ume, "queue", "unset", "9", code=3)["error"]
    assert "1 task running" in refused["message"]
    say(ume, "cancel", job)
    assert say(ume, "cluster", "show")["document_number"] == before + 2
