"""What is said of the directory in which a program saves itself."""

from __future__ import annotations

from iriai.host.mounts import saves_note

TABLE = """\
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
31 22 0:40 / /home rw shared:2 - nfs4 server:/home rw
32 22 0:41 / /mnt/ssh rw shared:3 - fuse.sshfs ken: rw
"""


def test_a_directory_of_this_machine_alone_is_named():
    assert saves_note("/srv/work", TABLE).startswith("/srv/work is of this machine alone (ext4)")


def test_of_one_that_several_machines_may_have_nothing_is_said():
    assert saves_note("/home/ann", TABLE) == ""
    assert saves_note("/mnt/ssh/work", TABLE) == ""
