"""Jobs that wait are counted for their users and accounts, also by a daemon that began anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iriai.client import Client
from iriai.model.problem import Problem, Refused
from iriai.wire.requests import Submitted
from tests.endtoend.installation import Installation, installed
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

JOB_BYTES = 4 << 20
CONFIGURATION = f"""
[machine]
cpus = 2
memory = "1G"

[identity]
name_accounts = true

[limits]
job_bytes_per_user = {JOB_BYTES}
jobs_per_account = 5
"""
LARGE = {f"LARGE{place}": "x" * 100_000 for place in range(8)}


@pytest.fixture(scope="module")
def counted(people: People) -> Iterator[Installation]:
    """A daemon of root's with small limits, of accounts too."""
    with installed(people.ann, CONFIGURATION) as installation:
        yield installation


def handed_in(client: Client, drafts: list) -> tuple[list[str], list[Refused]]:
    """Ids of those that were accepted, and why the others were not."""
    told = client.submit_many(drafts)
    accepted = [each.id for each in told if isinstance(each, Submitted)]
    return accepted, [each for each in told if isinstance(each, Problem)]


def answers(installation: Installation) -> bool:
    """Whether a daemon listens."""
    try:
        with installation.client() as client:
            client.jobs()
    except Problem:
        return False
    return True


def test_an_account_has_so_many_whoever_hands_them_in(counted: Installation, people: People):
    """T9h: who may name others' accounts, or has several, has so many in each."""
    with counted.client(people.ann) as client:
        own, refused = handed_in(client, [counted.draft("true", cwd="/tmp", held=True)] * 7)
        assert (len(own), {each.code for each in refused}) == (5, {"too-many-jobs"})
        assert f"/{people.ann.name} has 5 jobs" in refused[0].message
        assert "jobs_per_account in [limits]" in refused[0].hint
    with counted.client(people.bob) as other:
        for_ann = counted.draft("true", cwd="/tmp", held=True, account=people.ann.name)
        assert "jobs_per_account" in handed_in(other, [for_ann])[1][0].hint
        own_of_bob, _ = handed_in(other, [counted.draft("true", cwd="/tmp", held=True)])
        other.cancel(own_of_bob)
    with counted.client(people.ann) as client:
        client.cancel(own)


def test_what_came_with_jobs_counts_when_the_daemon_is_back(counted: Installation, people: People):
    """T9h: the end of a daemon gives nobody their bytes again."""
    draft = counted.draft("true", cwd="/tmp", held=True, env=LARGE)
    with counted.client(people.bob) as client:
        before, refused = handed_in(client, [draft] * 5)
        assert (len(before), refused) == (5, [])
    counted.kill("daemon")
    until(lambda: answers(counted), "the next daemon")
    with counted.client(people.bob) as client:
        again, refused = handed_in(client, [draft] * 2)
        assert again == []
        assert {each.code for each in refused} == {"too-many-job-bytes"}
        client.cancel(before)
