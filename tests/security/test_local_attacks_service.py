"""Attacks on the service by way of its sockets, its files, its messages and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from iriai.model.problem import NotAllowed, Problem
from iriai.wire.changes import Alter, AskStory, Cancel, Hold, Release
from iriai.wire.codec import decode_reply, request_frame
from iriai.wire.envelopes import Answer, Request, RequestBody
from iriai.wire.joining import MakeToken
from iriai.wire.machines import Drain, Forget, Resume
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Down,
    Failure,
    Hello,
    Jobs,
    Submitted,
    Welcome,
)
from tests.endtoend.installation import Installation
from tests.security.attacker import (
    DONE,
    Attacker,
    Working,
    working,
)
from tests.security.bad_client import bad_client
from tests.support.people import TestPerson

pytestmark = pytest.mark.root

ROOT = TestPerson("root", 0, 0, ("root",))


@pytest.fixture
def anns(attacked: Installation) -> Iterator[Working]:
    """A task of Ann's that runs to its end."""
    with working(attacked) as task:
        yield task


STATE = """
state = sys.argv[1]
def connect(path):
    socket.socket(socket.AF_UNIX).connect(path)
def bind(path):
    socket.socket(socket.AF_UNIX).bind(path)
def lock(path):
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
def watch(path):
    call(254, call_fd, path.encode(), 0xfff)
call_fd = libc.inotify_init()
places = ["", "/log", "/spool", "/store", "/launcher", "/cluster", "/nodes"]
files = ["/daemon.lock", "/launcher.lock", "/iriai.toml", "/state.json", "/store/iriai.db",
         "/log/daemon.log", "/launcher/journal", "/machine.json"]
for place in places:
    attempt("list " + place, os.listdir, state + place)
    attempt("make in " + place, os.mkdir, state + place + "/eve")
    attempt("link in " + place, os.symlink, "/etc", state + place + "/eve")
    attempt("bind in " + place, bind, state + place + "/eve.sock")
    attempt("lock " + place, lock, state + place)
    attempt("watch " + place, watch, state + place)
    attempt("mode of " + place, os.chmod, state + place, 0o777)
    attempt("move " + place, os.rename, state + place, state + place + ".old")
for file in files:
    attempt("read " + file, open, state + file)
    attempt("write " + file, open, state + file, "a")
    attempt("hard link of " + file, os.link, state + file, "linked")
    attempt("lock " + file, lock, state + file)
for name in ("/daemon.sock", "/launcher.sock"):
    attempt("remove " + name, os.unlink, state + name)
    attempt("bind over " + name, bind, state + name)
    attempt("move " + name, os.rename, state + name, "taken.sock")
    attempt("replace " + name, os.rename, "own.sock", state + name)
    attempt("mode of " + name, os.chmod, state + name, 0)
    attempt("time of " + name, os.utime, state + name, (0, 0))
attempt("connect launcher", connect, state + "/launcher.sock")
attempt("own", connect, state + "/daemon.sock")
"""


def test_what_lies_in_the_state_directory(eve: Attacker, attacked: Installation):
    """Nothing there is listed, read, locked, watched, made, linked, moved or replaced."""
    came_of = eve.attempts(STATE, attacked.state)
    assert came_of.pop("own") == DONE
    assert len(came_of) == 7 * 8 + 8 * 4 + 2 * 6 + 1
    assert DONE not in came_of.values(), {k for k, v in came_of.items() if v == DONE}


GREETING = request_frame(Request(1, Hello(PROTOCOL_VERSION)))
ROOT_IN_A_NAMESPACE = """
uid, gid = os.getuid(), os.getgid()
call(272, 0x10000000)
for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
    with open("/proc/self/" + name, "w") as file:
        file.write(text)
assert os.getuid() == 0
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(bytes.fromhex(sys.argv[2]))
size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
print(connection.recv(size, socket.MSG_WAITALL).hex())
"""


def test_who_is_root_in_a_namespace_is_no_operator(eve: Attacker, attacked: Installation):
    """The daemon takes her for who she is."""
    told = eve.run(ROOT_IN_A_NAMESPACE, attacked.paths.daemon_socket, GREETING.hex())
    welcome = decode_reply(bytes.fromhex(told)).body
    assert isinstance(welcome, Welcome)
    assert (welcome.user, welcome.operator) == (eve.person.name, False)


# --- the jobs of another ------------------------------------------------------------------------


def test_jobs_of_another_by_range_and_pattern(eve: Attacker, attacked: Installation):
    """Whatever names them, they are neither touched nor shown."""
    with attacked.client() as client, attacked.client(eve.person) as eves:
        draft = attacked.draft("true", name="name-of-ann", held=True, array=((0, 9, 1),))
        job = client.submit(draft).id
        home, _, number = job.rpartition("-")
        names = [f"{job}.0-9", f"{job}.3", "name:*", "name:name-of-ann", "name:name-*", f"{home}-*"]
        names += [f"{home}-1-{number}", number, f"{job}#1", f"{job}.0#1", "*", "", "name:", home]
        before = client.show(job)
        for name in names:
            for change in (eves.cancel, eves.hold, eves.release):
                assert is_refused(change, [name])
            for ask in (eves.show, eves.why, lambda name: eves.ask(AskStory(name)), eves.logs):
                assert is_refused(ask, name)
            assert is_refused(eves.alter, Alter((name,), cpus=2))
        assert client.show(job) == before
        client.cancel([job])


def is_refused(ask: Callable[[Any], Any], about: object) -> bool:
    """Whether nothing was done, and nothing told."""
    try:
        answer = ask(about)
    except Problem:
        return True
    return not (getattr(answer, "tasks", None) or getattr(answer, "changes", None))


def requests_of_operators() -> list[RequestBody]:
    """What ordinary users may not ask at all."""
    return [
        Down(),
        Down(kill=True),
        Drain("", "eve"),
        Resume(""),
        Forget(""),
        Jobs(everyone=True),
        Jobs(user="root"),
        MakeToken("join", 60.0),
    ]


def test_requests_made_by_hand(eve: Attacker, attacked: Installation, anns: Working):
    """What the commands would not send is judged in the daemon, by who the kernel says she is."""
    ids = (anns.job,)
    with bad_client(attacked, eve.person) as client:
        assert isinstance(client.greet(), Answer)
        for body in requests_of_operators():
            assert isinstance(client.ask(body), Failure), body
        for change in (Cancel(ids), Hold(ids), Release(ids), Alter(ids, name="eve")):
            reply = client.ask(change)
            changed = isinstance(reply, Answer) and (
                getattr(reply.body, "tasks", None) or getattr(reply.body, "changes", None)
            )
            assert not changed, reply


def test_a_job_made_by_hand_for_another(eve: Attacker, attacked: Installation):
    """Fields that name another user are none of a job's, and its task is Eve's."""
    assert attacked.person is not None
    ann = attacked.person.name
    draft = eve.draft("say('who', os.getuid())")
    with bad_client(attacked, eve.person) as client:
        client.greet()
        for more in ({"user": ann}, {"uid": 0}, {"user": "root"}, {"login": [0, 0]}):
            made = msgspec.to_builtins(draft, builtin_types=(bytes,)) | more
            reply = client.ask_encoded({"type": "submit", "draft": made})
            assert isinstance(reply, Answer), reply
            assert isinstance(reply.body, Submitted)
            assert eve.end_of(reply.body.id).cause == "completed"
            assert eve.told("who") == str(eve.person.uid)
    with pytest.raises(NotAllowed):
        eve.submit(msgspec.structs.replace(draft, account=ann))


ARRAYS = ([0, 1 << 62, 1], [-1, 1, 1], [5, 1, 1], [0, 10, 0], [0, 10, -1])


def test_odd_arrays(eve: Attacker, attacked: Installation):
    """Ranges that no machine could count are refused at once."""
    with bad_client(attacked, eve.person) as client:
        client.greet()
        for array in ARRAYS:
            made = msgspec.to_builtins(eve.draft(""), builtin_types=(bytes,)) | {"array": [array]}
            assert isinstance(client.ask_encoded({"type": "submit", "draft": made}), Failure)
    assert eve.jobs() == []
