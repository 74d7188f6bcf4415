"""The state directory: made with the right modes, kept, or refused in one line."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import iriai
from iriai.model.paths import StatePaths
from iriai.model.problem import ExitCode, Problem
from iriai.state.state_directory import (
    STATE_VERSION,
    absolute_paths,
    check_space,
    lock_state,
    prepare,
    read_identity,
)
from iriai.system.lock_file import adopt_holder, lock_holder, owner_text, take_lock
from iriai.system.privileges import current_user
from iriai.system.procfs import boot_id, read_process


def ready(directory: Path, **given) -> StatePaths:
    """Prepare the directory for a daemon that runs as this user."""
    paths = absolute_paths(str(directory))
    prepare(paths, **{"home": "ume", "home_given": False, "user": current_user(), **given})
    return paths


def refusal(call, *arguments, **named) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*arguments, **named)
    problem = caught.value
    assert problem.hint
    assert "\n" not in str(problem)
    return problem


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def open_place():
    """A directory that everybody may enter; those of pytest are this user's alone."""
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_a_new_directory_is_made_and_remembers_what_it_is(tmp_path):
    paths = ready(tmp_path / "deep" / "state")
    identity = read_identity(paths)
    assert (identity.home, identity.daemon_user) == ("ume", current_user())
    assert Path(paths.store).is_dir()
    assert Path(paths.spool).is_dir()


def test_preparing_again_changes_nothing(tmp_path):
    paths = ready(tmp_path / "state")
    before = Path(paths.identity).read_bytes()
    ready(tmp_path / "state", home="other")
    assert Path(paths.identity).read_bytes() == before


def test_what_is_secret_is_open_to_nobody_else(tmp_path):
    paths = ready(tmp_path / "state")
    assert mode_of(paths.store) == 0o700
    # The daemon opens its log anew by itself; the files are for nobody else.
    assert mode_of(paths.log) == (0o710 if os.geteuid() == 0 else 0o700)
    assert mode_of(paths.identity) == 0o600
    assert mode_of(paths.directory) == (0o711 if os.geteuid() == 0 else 0o700)


def test_a_directory_made_by_hand_may_hold_a_configuration(tmp_path):
    (tmp_path / "iriai.toml").write_text("# by hand")
    assert read_identity(ready(tmp_path)).home == "ume"
    assert (tmp_path / "iriai.toml").read_text() == "# by hand"


def test_a_directory_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    os.chmod(tmp_path, 0o755)
    problem = refusal(ready, tmp_path)
    assert "'thesis.tex' is in it" in problem.message
    assert mode_of(str(tmp_path)) == 0o755
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "state").write_text("")
    assert refusal(ready, tmp_path / "state").exit_code is ExitCode.REFUSED
    assert refusal(ready, tmp_path / "state" / "below").exit_code is ExitCode.REFUSED


def test_a_newer_version_is_refused(tmp_path):
    paths = ready(tmp_path)
    newer = json.loads(Path(paths.identity).read_text()) | {"version": STATE_VERSION + 1}
    Path(paths.identity).write_text(json.dumps(newer))
    problem = refusal(ready, tmp_path)
    assert problem.code == "newer-state"
    assert f"version {STATE_VERSION + 1}" in problem.message


def test_a_directory_of_the_version_before_is_refused_and_left_as_it_is(tmp_path):
    version = STATE_VERSION - 1
    before = f'{{"version": {version}, "home": "ume", "daemon_user": "iriai"}}\n'
    (tmp_path / "state.json").write_text(before)
    problem = refusal(ready, tmp_path)
    assert problem.code == "older-state"
    assert f"version {version} of the directory; this one knows {STATE_VERSION}" in problem.message
    assert "iriai down" in problem.hint
    assert (tmp_path / "state.json").read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": "x"}', "\0"])
def test_a_broken_identity_is_refused(tmp_path, text):
    paths = ready(tmp_path)
    Path(paths.identity).write_text(text)
    assert refusal(ready, tmp_path).code == "not-a-state-directory"


def test_the_name_of_the_home_stays(tmp_path):
    ready(tmp_path, home="ume", home_given=True)
    problem = refusal(ready, tmp_path, home="matsu", home_given=True)
    assert problem.code == "home-renamed"
    assert "'matsu'" in problem.message
    assert "'ume'" in problem.hint
    assert read_identity(absolute_paths(str(tmp_path))).home == "ume"


def test_a_path_too_long_for_sockets_is_refused_before_anything_is_made(tmp_path):
    long = tmp_path / ("d" * 60) / ("e" * 60)
    problem = refusal(ready, long)
    assert problem.code == "socket-path-too-long"
    assert "107" in problem.message
    assert os.listdir(tmp_path) == []


def test_the_longest_path_for_sockets_still_works():
    with tempfile.TemporaryDirectory(prefix="iriai-") as name:
        room = 107 - len(f"{name}//launcher.sock")
        ready(Path(name, "d" * room))
        assert refusal(ready, Path(name, "d" * (room + 1))).code == "socket-path-too-long"


def test_a_directory_in_use_is_refused_with_the_process_that_uses_it(tmp_path):
    paths = ready(tmp_path)
    program = (
        "import sys; from iriai.state.state_directory import *;"
        "lock_state(absolute_paths(sys.argv[1]), 'daemon'); print('held', flush=True);"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        assert lock_holder(paths.lock("daemon")) == holder.pid
        problem = refusal(lock_state, paths, "daemon")
        assert problem.code == "state-in-use"
        assert f"process {holder.pid}" in problem.message
        assert "iriai down" in problem.hint
        holder.kill()
    assert lock_holder(paths.lock("daemon")) is None
    os.close(lock_state(paths, "daemon"))


def test_nobody_holds_a_lock_that_was_never_taken(tmp_path):
    assert lock_holder(str(tmp_path / "daemon.lock")) is None


def test_a_lock_is_for_nobody_else_to_open(tmp_path):
    path = tmp_path / "daemon.lock"
    path.touch(0o644)  # of an older version
    os.close(take_lock(str(path)))
    assert mode_of(str(path)) == 0o600


def test_a_lock_that_leads_elsewhere_is_not_taken(tmp_path):
    (tmp_path / "precious").write_text("precious")
    for way in (os.symlink, os.link):
        way(tmp_path / "precious", tmp_path / "daemon.lock")
        with pytest.raises(OSError, match=r"symbolic link|of user id \d+ alone"):
            take_lock(str(tmp_path / "daemon.lock"))
        (tmp_path / "daemon.lock").unlink()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("stale", ["{pid}", "{pid} 1 {boot}", "{pid} {ticks} another-boot"])
def test_a_process_that_a_lock_names_is_believed_only_with_its_start_and_boot(tmp_path, stale):
    path = str(tmp_path / "daemon.lock")
    me = read_process(os.getpid())
    text = stale.format(pid=me.pid, ticks=me.started_ticks, boot=boot_id())
    lock = take_lock(path)
    os.ftruncate(lock, 0)
    os.pwrite(lock, text.encode(), 0)
    assert lock_holder(path) is None
    assert adopt_holder(path) is None
    os.ftruncate(lock, 0)
    os.pwrite(lock, owner_text(), 0)
    assert lock_holder(path) == me.pid
    watched = adopt_holder(path)
    assert watched is not None
    os.close(watched.descriptor)
    os.close(lock)
    assert adopt_holder(path) is None


@pytest.mark.root
def test_a_lock_of_somebody_else_names_no_process(people, tmp_path):
    """Whoever owns the file could write any process into it."""
    path = str(tmp_path / "daemon.lock")
    lock = take_lock(path)
    os.chown(path, people.eve.uid, people.eve.gid)
    with pytest.raises(PermissionError, match="belongs to another user"):
        adopt_holder(path)
    os.close(lock)


def test_a_full_disk_is_named(tmp_path):
    paths = ready(tmp_path)
    os.symlink("/dev/full", f"{tmp_path}/probe")
    problem = refusal(check_space, paths)
    assert problem.code == "no-space"
    assert str(tmp_path) in problem.message


@pytest.mark.root
def test_a_directory_of_somebody_else_is_refused(people, open_place):
    state = open_place / "state"
    state.mkdir()
    os.chown(state, people.ann.uid, people.ann.gid)
    problem = refusal(ready, state)
    assert problem.code == "state-of-another"
    assert people.ann.name in problem.message
    assert problem.exit_code is ExitCode.NOT_ALLOWED


@pytest.mark.root
def test_roots_daemon_of_another_user_gets_what_it_writes(people, open_place):
    paths = ready(open_place / "state", user=people.ann.name)
    owners = {name: os.stat(getattr(paths, name)).st_uid for name in ("store", "spool", "log")}
    assert owners == {"store": people.ann.uid, "spool": people.ann.uid, "log": 0}
    assert os.stat(paths.directory).st_uid == 0
    assert mode_of(paths.spool) == 0o711
    ready(open_place / "state", user=None)
    assert read_identity(paths).daemon_user == people.ann.name


@pytest.mark.root
def test_the_user_of_a_daemon_stays(people, open_place):
    ready(open_place / "state", user=people.ann.name)
    problem = refusal(ready, open_place / "state", user=people.bob.name)
    assert problem.code == "daemon-user-changed"


@pytest.mark.root
def test_an_unknown_user_for_the_daemon_is_refused(open_place):
    problem = refusal(ready, open_place / "state", user="nobody-of-this-name")
    assert problem.code == "unknown-user"


@pytest.mark.root
def test_a_directory_that_the_daemons_user_cannot_reach_is_refused(people, open_place):
    private = open_place / "private"
    private.mkdir(mode=0o700)
    problem = refusal(ready, private / "state", user=people.ann.name)
    assert problem.code == "state-unreachable"
    assert f"may not enter {private} " in problem.message
    assert f"chmod o+x {private}" in problem.hint
    assert read_identity(absolute_paths(str(private / "state"))) is None
    ready(private / "state", user="root")


@pytest.mark.root
def test_an_empty_private_directory_is_opened_for_the_daemon(people, open_place):
    private = open_place / "private"
    private.mkdir(mode=0o700)
    ready(private, user=people.ann.name)
    assert mode_of(str(private)) == 0o711


AS_ANOTHER = """
import sys
from iriai.state.state_directory import absolute_paths, prepare
from iriai.system.privileges import drop_privileges
from iriai.model.problem import Problem
drop_privileges(sys.argv[2])
try:
    prepare(absolute_paths(sys.argv[1]), home="ume", home_given=False)
except Problem as problem:
    print(problem.code, problem, sep=": ")
"""


@pytest.mark.root
def test_without_root_a_directory_that_cannot_be_written_is_refused(people, open_place):
    command = [sys.executable, "-c", AS_ANOTHER, str(open_place / "state"), people.ann.name]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"state-not-writable: {open_place}/state cannot be used (Permission")


@pytest.mark.root
def test_a_users_own_directory_is_prepared_by_that_user(people, open_place):
    os.chown(open_place, people.ann.uid, people.ann.gid)
    command = [sys.executable, "-c", AS_ANOTHER, str(open_place / "state"), people.ann.name]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    assert read_identity(absolute_paths(str(open_place / "state"))).daemon_user == people.ann.name


@pytest.mark.root
def test_a_program_that_the_daemons_user_cannot_read_is_refused(people, open_place):
    program = open_place / "root's" / "iriai"
    shutil.copytree(Path(iriai.__file__).parent, program, ignore=shutil.ignore_patterns("*.pyc"))
    program.parent.chmod(0o700)
    code = AS_ANOTHER.replace("drop_privileges(sys.argv[2])", "").replace(
        "home_given=False", "home_given=False, user=sys.argv[2]"
    )
    command = [sys.executable, "-c", code, str(open_place / "state"), people.ann.name]
    environment = {**os.environ, "PYTHONPATH": str(program.parent)}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.startswith(f"program-unreachable: user '{people.ann.name}', as whom the")
    assert f"may not enter {program.parent} on the way to a part of the program" in said.stdout
    command[-1] = "root"
    assert subprocess.run(command, check=True, env=environment, capture_output=True).stdout == b""
