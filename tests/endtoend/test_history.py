"""Old history is deleted beside the work of a real daemon, and what is gone is said."""

import json
from pathlib import Path

from iriai.model.problem import NotFound
from tests.endtoend.installation import Installation
from tests.support.waiting import until

# On one cpu jobs end in the order in which they came: on two it is anybody's guess which of two
# that run together ends last.
ONE_CPU = '[machine]\nname = "ume"\ncpus = 1\n'


def test_finished_jobs_are_deleted_and_missed_by_name(iriai: Installation):
    iriai.configure(ONE_CPU)
    iriai.start()
    script = "#!/bin/sh\nexit 0\n"
    with iriai.client() as client:
        jobs = [
            client.submit(iriai.draft(script=f"{script}# {number}".encode())).id
            for number in range(12)
        ]
        client.wait(jobs)
    iriai.leave_launcher()
    first, last = (Path(iriai.paths.spool, f"{job}.0-1.out") for job in (jobs[0], jobs[-1]))
    for printed in (first, last):
        printed.write_text("as if somebody had followed it\n")
    iriai.configure(f"{ONE_CPU}[jobs]\nkeep_jobs = 4\n")
    iriai.start()
    with iriai.client() as client:
        until(lambda: _says_it_is_gone(client, jobs[0]), "the deletion")
        assert (first.exists(), last.exists()) == (False, True)
        assert client.usage(0.0, everyone=True, by="account").history_from_wall_s is not None
        fresh = client.submit(iriai.draft("true")).id
        assert int(fresh.rpartition("-")[2]) == 13
        client.wait([fresh])
    shown = iriai.call("show", jobs[0])
    assert (shown.returncode, shown.stderr.count("\n")) == (4, 1)
    assert f"{jobs[0]} is no longer stored" in shown.stderr
    assert "is deleted, and not counted" in iriai.call("usage").stderr
    listed = json.loads(iriai.call("jobs", "--finished", "--json").stdout)
    # Perhaps it was looked at before the last one had finished.
    assert [row["id"] for row in listed["rows"]][:4] == [fresh, *jobs[:-4:-1]]
    assert len(listed["rows"]) <= 5


def _says_it_is_gone(client, job: str) -> bool:
    try:
        client.show(job)
    except NotFound as problem:
        return problem.code == "beyond-retention"
    return False
