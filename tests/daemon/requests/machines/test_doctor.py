"""What `doctor` finds on a machine that is described to it."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from iriai.config.live_settings import LiveChange
from iriai.config.reader import parse_configuration
from iriai.daemon.requests.machines.doctor import findings
from iriai.daemon.startup.rc_run import RcRun
from iriai.daemon.startup.settings import DaemonSettings, ServiceMode
from iriai.host.hardware import MachineFacts, capacity
from iriai.host.mounts import Mount, mount_of
from iriai.launcher.contract.messages import Enforcement
from iriai.model.paths import StatePaths
from iriai.state.configuration import with_defaults
from iriai.state.rc_file import read_rc
from iriai.state.role import Role
from iriai.system.lock_file import take_lock
from tests.support.trusted_place import trusted_place

FACTS = MachineFacts(cpus=4, memory_bytes=8 << 30, gpus=0, host_name="ume", boot_id="b")


@pytest.fixture
def paths(tmp_path):
    made = StatePaths(str(tmp_path))
    Path(made.store).mkdir()
    lock = take_lock(made.lock("supervisor"))
    yield made
    os.close(lock)


def settings(
    paths: StatePaths, text: str = "", mode: ServiceMode = ServiceMode.SINGLE_USER
) -> DaemonSettings:
    single_user = mode is ServiceMode.SINGLE_USER
    configuration = with_defaults(parse_configuration(text, "iriai.toml"), single_user=single_user)
    return DaemonSettings(
        paths=paths,
        configuration=configuration,
        facts=FACTS,
        capacity=capacity(FACTS, configuration),
        mode=mode,
        home="ume",
        role=Role(),
        daemon_user="ann",
        owner_uid=1001,
        listener=socket.socket(),
        ending=-1,
    )


NO_RC = RcRun(None, is_member=False)


def found(
    settings: DaemonSettings, enforcement=(), trouble=(), rc: RcRun = NO_RC
) -> dict[str, list[str]]:
    """The messages at each level; the socket of the settings is done with."""
    levels: dict[str, list[str]] = {"trouble": [], "note": [], "ok": []}
    rows = findings(settings, settings.configuration, enforcement, trouble, rc)
    assert [row.level for row in rows] == sorted(
        (row.level for row in rows), key=list(levels).index
    )
    for row in rows:
        levels[row.level].append(f"{row.subject}: {row.message}")
    settings.listener.close()
    return levels


def test_a_machine_that_is_well_has_no_trouble_and_no_notes(paths):
    rows = [Enforcement("memory", "cgroup v1 memory"), Enforcement("spawn", "iriai-exec")]
    levels = found(settings(paths), rows)
    assert levels["trouble"] == []
    assert all("lies on" in note for note in levels["note"])
    assert "memory: cgroup v1 memory" in levels["ok"]
    assert "daemon: runs as ann, works for ann alone" in levels["ok"]


def test_what_the_daemon_knows_comes_first(paths):
    assert found(settings(paths), (), ["no launcher"])["trouble"] == ["daemon: no launcher"]


def test_limits_that_are_only_sampled_are_noted(paths):
    rows = [
        Enforcement("memory", "sampling every 0.5 s", "no controller"),
        Enforcement("cpu-shares", "not enforced"),
        Enforcement("spawn", "python helper", "slower"),
    ]
    notes = found(settings(paths), rows)["note"]
    assert "memory: sampling every 0.5 s" in notes
    assert "cpu-shares: not enforced" in notes
    assert "spawn: python helper" in notes


def test_more_than_there_is_is_named(paths):
    levels = found(settings(paths, '[machine]\ncpus = 200\nmemory = "9G"\ngpus = 1'))
    assert "cpus: 200 cpus are given away, there are 4" in levels["note"]
    assert "memory: 9G of memory are given away, there are 8G" in levels["trouble"]
    assert "gpus: 1 GPUs are given away, 0 were found" in levels["trouble"]


def test_a_directory_that_users_cannot_enter_is_trouble_for_a_system_daemon(paths):
    os.chmod(paths.directory, 0o700)
    levels = found(settings(paths, mode=ServiceMode.SYSTEM))
    assert any("users may not enter" in text for text in levels["trouble"])
    assert not any("may not enter" in text for text in found(settings(paths))["trouble"])


def test_a_store_that_is_gone_is_trouble(paths):
    Path(paths.store).rmdir()
    assert any(text.startswith("store: ") for text in found(settings(paths))["trouble"])


def test_daring_settings_are_noted(paths):
    text = '[identity]\nminimum_uid = 0\nname_accounts = true\noperators = "no such group"'
    notes = found(settings(paths, text, ServiceMode.SYSTEM))["note"]
    assert "users: tasks of root are run as well (minimum_uid = 0)" in notes
    assert "users: all users may name another's account (name_accounts)" in notes
    assert "operators: there is no group 'no such group', so root is the only operator" in notes


def test_a_daemon_without_a_supervisor_says_so(paths, tmp_path):
    other = StatePaths(str(tmp_path / "other"))
    Path(other.store).mkdir(parents=True)
    alone = replace(settings(paths), paths=other)
    assert "supervisor: no supervisor restarts launcher and daemon" in found(alone)["note"]


MOUNTS = r"""
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:30 / /home rw shared:2 - nfs4 server:/home rw
23 21 0:31 / /home/ann/my\040disk rw - ext4 /dev/sdb1 rw
24 21 0:32 / /home rw - autofs x rw
25 24 0:33 / /home rw - nfs4 server:/home rw
torn
"""


@pytest.mark.parametrize(
    ("directory", "mount"),
    [
        ("/var/lib/iriai", Mount("/", "ext4")),
        ("/homely", Mount("/", "ext4")),
        ("/home", Mount("/home", "nfs4")),
        ("/home/ann/iriai", Mount("/home", "nfs4")),
        ("/home/ann/my disk/iriai", Mount("/home/ann/my disk", "ext4")),
    ],
)
def test_a_directory_lies_on_the_nearest_mount(directory, mount):
    assert mount_of(directory, MOUNTS) == mount


def test_a_table_without_mounts_says_nothing():
    assert mount_of("/", "") is None
    assert mount_of("/") is not None


def test_what_surrounds_tasks_is_looked_at(paths):
    with trusted_place() as place:
        look_at_what_surrounds_tasks(paths, place)


def look_at_what_surrounds_tasks(paths, place):
    prolog, epilog = place / "prolog", place / "epilog"
    prolog.write_text("#!/bin/sh\n")
    epilog.write_text("#!/bin/sh\n")
    epilog.chmod(0o777)
    text = f"""
[machine]
tmp = "/no/such/place"
prolog = "{prolog}"
epilog = "{epilog}"
[jobs]
sendmail = "/no/such/sendmail"
"""
    described = replace(settings(paths, text), owner_uid=os.geteuid())
    trouble = found(described)["trouble"]
    assert "tmp: there is no directory /no/such/place" in trouble
    assert f"prolog: {prolog} is not executable" in trouble
    assert f"epilog: {epilog} is not run: other users can write it" in trouble
    assert "mail: there is no /no/such/sendmail" in trouble
    prolog.chmod(0o755)
    epilog.unlink()
    trouble = found(replace(settings(paths, text), owner_uid=os.geteuid()))["trouble"]
    assert [line for line in trouble if "log:" in line] == [
        f"epilog: {epilog} cannot be run: No such file or directory"
    ]


def test_queues_in_which_something_may_wait_for_ever_are_named(paths):
    text = """
[order]
age_s = "none"
[queues.0]
time_limit_max_s = 60
[queues.2]
state = "enabled"
"""
    notes = found(settings(paths, text))["note"]
    assert [note for note in notes if note.startswith("queues:")] == [
        "queues: queue 1 has no longest time: what waits behind a job there may wait for ever",
        "queues: lower queues may wait for ever (age_s is none)",
    ]
    assert not [each for each in found(settings(paths))["note"] if each.startswith("queues:")]


def test_what_became_of_the_rc_file_is_said(paths):
    Path(paths.rc).write_text("queue set 1 state=enabled\nqueue set 1 colour=red\ngang unset\n")
    Path(paths.rc).chmod(0o600)
    file = read_rc(paths, "")
    done: list[LiveChange] = []
    run = RcRun(file, is_member=False)
    run.run(done.append)
    assert (run.done, [change.path for change in done]) == (1, ["queues.1"])
    assert "line 2: a queue has no 'colour'" in run.trouble[0]
    assert run.trouble[0].endswith("(1 line before it holds, none after it is run)")
    right = RcRun(file._replace(lines=file.lines[:1]), is_member=False)
    right.run(done.append)
    assert (
        f"rc file: 1 line of {paths.rc} was run at the start"
        in found(settings(paths), rc=right)["ok"]
    )
    skipped = RcRun(file, is_member=True)
    skipped.run(done.append)
    notes = found(settings(paths), rc=skipped)["note"]
    assert any(f"{paths.rc} is not run" in note for note in notes)
