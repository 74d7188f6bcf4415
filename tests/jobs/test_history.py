"""What is answered of jobs that have finished."""

import pytest

from iriai.jobs.history import JobHistory
from iriai.model.problem import NotFound
from iriai.model.records import HistoryDropped
from iriai.store import Store
from tests.store.records import accepted, finished, result


def test_a_job_that_was_looked_at_is_missed_as_soon_as_it_is_deleted(tmp_path):
    store = Store.open(tmp_path / "iriai.db")
    ends_of_round = []
    past = JobHistory("ume", str(tmp_path), store, ends_of_round.append)
    store.write([accepted(1), result(1), finished(1)])
    asked = [past.spec(1), past.spec(1)]
    store.write([HistoryDropped(1, 100)])
    for end in ends_of_round:
        end()
    with pytest.raises(NotFound) as caught:
        past.spec(1)
    store.close()
    assert asked[0] is asked[1]
    assert caught.value.code == "beyond-retention"
