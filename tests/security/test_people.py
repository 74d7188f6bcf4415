"""T10b: tasks are run for people, not for the users of services."""

from __future__ import annotations

import pwd

import pytest

from iriai.launcher.environment.environment import TaskUsers, UserRefused
from iriai.model.problem import NotAllowed
from tests.endtoend.installation import Installation
from tests.support.people import TestPerson

pytestmark = pytest.mark.root


def test_nobody_runs_no_tasks(undisturbed: Installation):
    """T10b: `nobody` has an id above all that people have, and was served like them."""
    entry = pwd.getpwnam("nobody")
    nobody = TestPerson("nobody", entry.pw_uid, entry.pw_gid, ())
    with undisturbed.client(nobody) as client, pytest.raises(NotAllowed, match="of services"):
        client.submit(undisturbed.draft("true", cwd="/", output="/dev/null"))


def test_no_task_is_run_as_the_daemons_user():
    """Found in the second reading: whoever is it may give the launcher orders."""
    uid = pwd.getpwnam("daemon").pw_uid
    assert TaskUsers(0).login("ume", "daemon", 0.0).uid == uid
    with pytest.raises(UserRefused, match="user of the daemon"):
        TaskUsers(0, uid).login("ume", "daemon", 0.0)


@pytest.mark.parametrize("name", ["nobody", "root", "daemon", "\0", "0", "65534"])
def test_the_launcher_refuses_them_by_itself(name: str):
    """T10b: whatever a daemon says."""
    with pytest.raises(UserRefused):
        TaskUsers(1000).login("ume", name, 0.0)
