"""Attacks on the walks by which disk is counted: they follow nothing, and end nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.endtoend.installation import Installation
from tests.security.attacker import Attacker, working
from tests.support.people import People

pytestmark = pytest.mark.root

SWAP = """
tree, large = os.environ["TMPDIR"], sys.argv[1]
held = os.open(tree, os.O_RDONLY)
for number in range(50):
    os.makedirs(tree + "/%d/b" % number)
    os.symlink(large, tree + "/link%d" % number)
RENAME, EXCHANGE = 316, 2
end_s = time.monotonic() + 8
while time.monotonic() < end_s:
    for number in range(50):
        call(RENAME, held, b"%d" % number, held, b"link%d" % number, EXCHANGE)
"""
FILL = """
large = open(os.environ["TMPDIR"] + "/large", "wb")
large.write(b"x" * (16 << 20))
large.flush()
os.chmod(os.environ["TMPDIR"], 0)
time.sleep(600)
"""
LIMIT = (("disk", 4 << 20),)


@pytest.fixture
def large(attacked: Installation, people: People) -> Path:
    """A directory of Ann's with more than Eve's task may have."""
    place = attacked.directory / "large"
    place.mkdir(exist_ok=True)
    (place / "file").write_bytes(b"x" * (16 << 20))
    for path in (place, place / "file"):
        os.chown(path, people.ann.uid, people.ann.gid)
    return place


def test_directories_swapped_with_links_while_they_are_walked(eve: Attacker, large: Path):
    """What a link leads to counts for nobody."""
    job = eve.begin(SWAP, large, named=LIMIT)
    end = eve.end_of(job)
    assert (end.cause, end.message) == ("completed", "")


def test_who_closes_a_directory_to_herself_is_counted(eve: Attacker, attacked: Installation):
    with working(attacked):  # Ann's task, which goes on
        end = eve.end_of(eve.begin(FILL, named=LIMIT))
    assert end.cause == "disk-limit"
    assert end.message.startswith("disk limit of 4M exceeded: peak 16")
