"""A real machine with an owner: whom it serves, what it says of itself, and why others wait."""

import json
import os

import pytest

from iriai.model.problem import Problem
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 2
memory = "4G"
requirements = 'TARGET.RequestMemory <= 1024 && TARGET.JobPrio < 3'
[machine.attributes]
HasMatlab = true
"""


@pytest.fixture
def owned(iriai):
    iriai.configure(CONFIGURATION)
    iriai.start()
    with iriai.client() as client:
        yield iriai, client


def test_who_matches_runs_and_who_never_could_is_refused(owned):
    iriai, client = owned
    draft = iriai.draft("true", output=os.devnull, requirements="HasMatlab", rank="Mips")
    [outcome] = client.wait([client.submit(draft).id])
    assert outcome.cause == "completed"
    for asked, clause in (
        ({"requirements": "Cpus > 2"}, "the job requires Cpus > 2, and Cpus is 2"),
        (
            {"memory_bytes": 2 << 30},
            "its owner requires TARGET.RequestMemory <= 1024, and RequestMemory is 2048",
        ),
    ):
        with pytest.raises(Problem) as caught:
            client.submit(iriai.draft("true", **asked))
        assert clause in caught.value.message


def test_a_job_that_may_match_later_waits_with_the_clause(owned):
    iriai, client = owned
    draft = iriai.draft("true", output=os.devnull, requirements="LoadAvg < -1")
    job = client.submit(draft).id
    until(lambda: client.why(job).reasons, "a reason")
    reason = client.why(job).reasons[0]
    assert (reason.rule, reason.needed) == ("requirements", "LoadAvg < -1")
    client.cancel([job])


def test_ads_and_matches_are_shown(owned):
    iriai, _ = owned
    [row] = json.loads(iriai.call("ads", "--json").stdout)["rows"]
    assert row["attributes"]["HasMatlab"] is True
    assert row["attributes"]["Memory"] == 4096
    assert "LoadAvg" in row["attributes"]
    assert row["requirements"] == "TARGET.RequestMemory <= 1024 && TARGET.JobPrio < 3"
    assert "HasMatlab = true" in iriai.call("ads", row["name"]).stdout
    found = iriai.call("match", 'HasMatlab && regexp("^x", Arch)').stdout
    assert 'regexp("^x", Arch)' in found
    assert "0 of 1 machine would match." in found
    table = json.loads(iriai.call("match", "HasMatlab", "--json").stdout)
    assert [each["matches"] for each in table["rows"]] == [True]
    wrong = iriai.call("match", "HasMatlab &&")
    assert wrong.returncode == 2
    assert "a value is missing at its end" in wrong.stderr
