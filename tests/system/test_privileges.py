"""Users that iriai itself runs as."""

import grp
import os
import subprocess
import sys
import tempfile

import pytest

from iriai.model.problem import Problem, UsageProblem
from iriai.system.privileges import (
    current_user,
    drop_privileges,
    ensure_daemon_user,
    find_user,
    unreachable_ancestor,
)


def test_becoming_oneself_changes_nothing():
    before = (os.getresuid(), os.getresgid(), os.getgroups())
    drop_privileges(current_user())
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before


def test_an_unknown_user_is_named():
    with pytest.raises(UsageProblem, match="there is no user 'nobody-of-this-name'"):
        find_user("nobody-of-this-name")


def test_who_is_there_already_is_not_made_again():
    assert ensure_daemon_user(current_user()).pw_name == current_user()


@pytest.mark.long
def test_every_way_is_open_to_oneself(tmp_path):
    assert unreachable_ancestor(str(tmp_path), current_user()) is None


DROP = """
import os, sys
from iriai.system.privileges import drop_privileges
drop_privileges(sys.argv[1])
print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))
try:
    os.setresuid(0, 0, 0)
except PermissionError:
    print("for good")
"""


@pytest.mark.root
def test_privileges_are_dropped_for_good_with_all_groups(people):
    command = [sys.executable, "-c", DROP, people.ann.name]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    uid, gid = people.ann.uid, people.ann.gid
    groups = sorted(os.getgrouplist(people.ann.name, gid))
    assert said == f"{(uid,) * 3} {(gid,) * 3} {groups}\nfor good\n"


@pytest.mark.root
def test_the_first_directory_that_is_closed_is_named(people):
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        os.chmod(name, 0o755)
        os.makedirs(f"{name}/open/closed/below", mode=0o755)
        os.chmod(f"{name}/open/closed", 0o700)
        barrier = unreachable_ancestor(f"{name}/open/closed/below", people.ann.name)
        assert str(barrier) == f"{name}/open/closed"
        assert unreachable_ancestor(f"{name}/open", people.ann.name) is None


@pytest.mark.root
def test_a_system_user_is_made_without_a_home_or_a_shell():
    name = f"iriai{os.getpid()}made"
    try:
        entry = ensure_daemon_user(name)
        assert 0 < entry.pw_uid < 1000
        assert entry.pw_shell.endswith("nologin")
        assert ensure_daemon_user(name) == entry
    finally:
        subprocess.run(["userdel", name], check=False)


@pytest.mark.root
def test_a_group_that_is_there_becomes_the_users_own():
    name = f"iriai{os.getpid()}grp"
    subprocess.run(["groupadd", "--system", name], check=True)
    try:
        assert ensure_daemon_user(name).pw_gid == grp.getgrnam(name).gr_gid
    finally:
        subprocess.run(["userdel", name], check=False)


@pytest.mark.root
def test_a_user_that_cannot_be_made_is_told_with_the_reason(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Problem, match="useradd") as caught:
        ensure_daemon_user("nobody-of-this-name")
    assert "--user" in caught.value.hint
