"""`--immediate`: a job that cannot start now is refused, and leaves nothing behind that waits."""

import pytest

from iriai.model.problem import Refused
from tests.endtoend.cluster import Cluster
from tests.endtoend.installation import installed
from tests.support.waiting import until


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, "[machine]\ncpus = 2\n") as installation:
        yield installation


def test_what_fits_starts_and_what_does_not_is_refused(machine):
    with machine.client() as client:
        first = client.submit(machine.draft("sleep", "60"), immediate=True)
        assert client.show(first.id).row.active == 1
        with pytest.raises(Refused) as caught:
            client.submit(machine.draft("true", cpus=2), immediate=True)
        assert caught.value.code == "not-now"
        assert "machine-busy" in caught.value.message
        assert [row.id for row in client.jobs()] == [first.id]
        client.cancel([first.id])
        client.wait([first.id])


def test_an_array_starts_whole_or_not_at_all(machine):
    with machine.client() as client:
        with pytest.raises(Refused, match="it cannot start now"):
            client.submit(machine.draft("sleep", "60", array=((1, 3, 1),)), immediate=True)
        until(lambda: not client.jobs(), "what had started to end")
        throttled = machine.draft("true", array=((1, 3, 1),), throttle=2)
        job = client.submit(throttled, immediate=True)
        assert client.wait([job.id])[0].exit_code == 0


def test_what_waits_for_others_is_refused(machine):
    with machine.client() as client:
        with pytest.raises(Refused, match="held"):
            client.submit(machine.draft("true", held=True), immediate=True)
        first = client.submit(machine.draft("sleep", "60"))
        with pytest.raises(Refused, match="dependency"):
            client.submit(machine.draft("true", after=(f"ok:{first.id}",)), immediate=True)
        client.cancel([first.id])
        client.wait([first.id])


def test_run_ends_with_the_exit_code_of_a_refusal(machine):
    busy = machine.call("submit", "--cpus", "2", "--", "sleep", "60").stdout.strip()
    refused = machine.call("run", "--immediate", "--", "true")
    assert refused.returncode == 3
    assert "it cannot start now" in refused.stderr
    machine.call("cancel", busy)
    machine.call("wait", "--quiet", busy)
    assert machine.call("run", "--immediate", "--", "echo", "hello").stdout == "hello\n"


@pytest.fixture
def cluster(person):
    made = Cluster(person)
    yield made
    made.stop()


def test_a_place_that_is_prefetched_for_later_is_not_now(cluster):
    cluster.add("b1", cpus=1)
    front = cluster.begin().front
    with front.client() as client:
        client.wait([client.submit(front.draft("true", array=((1, 8, 1),)), immediate=False).id])
        [outcome] = client.wait([client.submit(front.draft("true"), immediate=True).id])
        assert outcome.cause == "completed"
        busy = client.submit(front.draft("sleep", "60"), immediate=True)
        with pytest.raises(Refused, match="it cannot start now"):
            client.submit(front.draft("true"), immediate=True)
        client.cancel([busy.id])
