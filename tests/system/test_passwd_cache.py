"""People as the machine knows them, and what is remembered of them."""

import os
import pwd
import socket
import subprocess

import pytest

from iriai.system.passwd_cache import REMEMBERED_MAX, REMEMBERED_S, UnixUsers, peer_of


def test_this_user_is_found_by_id_and_by_name():
    me = pwd.getpwuid(os.geteuid())
    person = UnixUsers().by_uid(me.pw_uid)
    assert person == UnixUsers().by_name(me.pw_name)
    assert (person.uid, person.name) == (me.pw_uid, me.pw_name)
    assert person.groups[0] == person.group


def test_nobody_is_found_where_nobody_is():
    assert UnixUsers().by_uid(2**32 - 5) is None
    assert UnixUsers().by_uid(2**70) is None
    assert UnixUsers().by_name("no such user") is None
    assert UnixUsers().by_name("zero\0inside") is None


def test_people_are_asked_for_again_after_a_while(monkeypatch):
    now = [0.0]
    users = UnixUsers(lambda: now[0])
    asked = []
    monkeypatch.setattr("iriai.system.passwd_cache._look_up", asked.append)
    users.by_uid(7)
    users.by_uid(7)
    assert asked == [7]
    now[0] = REMEMBERED_S
    users.by_uid(7)
    assert asked == [7, 7]


def test_memory_of_people_is_bounded(monkeypatch):
    monkeypatch.setattr("iriai.system.passwd_cache._look_up", lambda key: None)
    users = UnixUsers()
    for uid in range(3 * REMEMBERED_MAX):
        users.by_uid(uid)
    assert len(users._known) <= REMEMBERED_MAX


@pytest.mark.root
def test_groups_are_the_primary_one_and_the_others(people):
    ann = UnixUsers().by_uid(people.ann.uid)
    assert (ann.name, ann.group, ann.groups) == (
        people.ann.name,
        people.ann.name,
        people.ann.groups,
    )


@pytest.mark.root
def test_the_kernel_names_who_connects(people):
    with socket.socket(socket.AF_UNIX) as listener:
        path = f"/tmp/iriai-{os.getpid()}.sock"
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen()
        program = (
            f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); s.recv(1)"
        )
        with subprocess.Popen(
            ["/usr/bin/python3", "-c", program], user=people.ann.uid, group=people.ann.gid
        ) as child:
            connection, _ = listener.accept()
            with connection:
                peer = peer_of(connection)
        os.unlink(path)
    assert (peer.pid, peer.uid, peer.gid) == (child.pid, people.ann.uid, people.ann.gid)
    assert child.returncode == 0
