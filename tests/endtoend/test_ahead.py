"""Short tasks on another machine than the broker's: the next one waits there, but not for long."""

import re

import pytest

from tests.endtoend.cluster import Cluster
from tests.support.waiting import until


@pytest.fixture
def cluster(person):
    made = Cluster(person)
    yield made
    made.stop()


def test_one_handed_out_ahead_comes_back_from_behind_a_long_one_and_is_next(cluster):
    cluster.add("b1", cpus=1)
    front = cluster.begin().front
    with front.client() as client:
        client.wait([client.submit(front.draft("true", array=((1, 8, 1),))).id])
        go, order = front.work / "go", front.work / "order"
        script = f"until [ -e {go} ]; do sleep 0.1; done; echo $IRIAI_TASK_ID >> {order}"
        job = client.submit(front.draft("sh", "-c", script, array=((1, 6, 1),))).id

        def was(what: str) -> bool:
            return re.search(what, front.call("story", job).stdout) is not None

        until(lambda: was(r"claimed +2 +b1"), "the second task to be handed out ahead")
        until(lambda: was(r"refused +2 .*the running tasks take longer"), "it to come back")
        go.touch()
        [outcome] = client.wait([job])
    assert outcome.cause == "completed"
    ran = order.read_text().split()
    assert ran[:2] == ["1", "2"]
    assert sorted(ran) == ["1", "2", "3", "4", "5", "6"]
