"""Who gets how much of a real machine; accounts of one laboratory, with equal rights."""

import os

import pytest

from iriai.wire.requests import JobDetail
from tests.endtoend.installation import PYTHON
from tests.support.waiting import until

CPU_S = 0.03
BURN = f"import time\nwhile time.process_time() < {CPU_S}: pass"
"""Ends after the same CPU time on every machine, its own start included."""

ACCOUNTS = """
[identity]
name_accounts = true
default_group = "lab"
[groups.lab.users]
ann = 1
bob = 1
eve = 1
new = 1
[jobs]
kill_grace_s = 0.5
"""
# Above it a job of a fraction of a second would count for nothing.
USAGE_COUNTS = """
[order]
usage_floor_s = 0.1
"""


def array(iriai, account, tasks, *command, **fields):
    """An array of one account, without output."""
    return iriai.draft(
        *command, account=account, array=((1, tasks, 1),), output=os.devnull, **fields
    )


def succeeded(client, job):
    detail: JobDetail = client.show(job)
    return detail.row.succeeded


def running_cpus(client):
    return {row.user: row.running_cpus for row in client.shares().rows}


def use_a_lot(iriai, client, account):
    """Have `account` used thousands of times what others have: urgency is paid for."""
    draft = iriai.draft("sleep", "0.1", account=account, urgency=1000.0, output=os.devnull)
    client.wait([client.submit(draft).id])


@pytest.mark.serial
def test_accounts_with_300_and_1000_and_3000_jobs_get_a_third_each(iriai, record_property):
    iriai.configure(ACCOUNTS + USAGE_COUNTS)
    iriai.start()
    with iriai.client() as client:
        jobs = {
            account: client.submit(array(iriai, account, tasks, PYTHON, "-S", "-E", "-c", BURN)).id
            for account, tasks in (("eve", 3000), ("bob", 1000), ("ann", 300))
        }
        client.wait([jobs["ann"]])
        done = {account: succeeded(client, job) for account, job in jobs.items()}
        client.cancel(list(jobs.values())[:2])
        client.wait(list(jobs.values()))
    parts = {account: 100 * count / sum(done.values()) for account, count in done.items()}
    record_property("percent", parts)
    assert all(abs(part - 100 / 3) <= 4 for part in parts.values()), done


@pytest.mark.serial
def test_an_account_with_a_thousandfold_usage_still_runs(iriai):
    iriai.configure(ACCOUNTS + USAGE_COUNTS + "[machine]\ncpus = 2\n")
    iriai.start()
    with iriai.client() as client:
        use_a_lot(iriai, client, "eve")
        client.wait([client.submit(array(iriai, "ann", 1, "sleep", "0.1")).id])
        usage = {row.user: row.usage_s for row in client.shares().rows}
        assert usage["eve"] > 500 * usage["ann"]
        light = client.submit(array(iriai, "ann", 5000, "sleep", "0.02")).id
        heavy = client.submit(array(iriai, "eve", 1, "true")).id
        client.wait([heavy])
        assert client.show(light).row.waiting > 0
        client.cancel([light])
        client.wait([light])


def test_a_newcomer_takes_half_while_others_wait_and_all_when_they_do_not(iriai):
    iriai.configure(ACCOUNTS + USAGE_COUNTS + "[machine]\ncpus = 64\n")
    iriai.start()
    with iriai.client() as client:
        veterans = ("ann", "bob", "eve")
        for account in veterans:
            use_a_lot(iriai, client, account)
        # While everything is taken all four come to wait; then 64 cpus are free at one moment.
        blocker = client.submit(iriai.draft("sleep", "60", cpus=64, account="ann")).id
        until(lambda: running_cpus(client)["ann"] == 64, "the blocker")
        sleepers = {
            account: client.submit(array(iriai, account, 100, "sleep", "60")).id
            for account in (*veterans, "new")
        }
        client.cancel([blocker])
        client.wait([blocker])
        until(lambda: sum(running_cpus(client).values()) == 64, "64 running tasks")
        assert 16 < running_cpus(client)["new"] <= 32
        client.cancel([sleepers[account] for account in veterans])
        until(lambda: running_cpus(client)["new"] == 64, "everything for the one who is left")
        client.cancel([sleepers["new"]])
        client.wait(list(sleepers.values()))


def test_one_account_alone_gets_everything(iriai):
    iriai.configure(ACCOUNTS + "[machine]\ncpus = 16\n")
    iriai.start()
    with iriai.client() as client:
        job = client.submit(array(iriai, "ann", 20, "sleep", "60")).id
        until(lambda: running_cpus(client)["ann"] == 16, "all cpus taken")
        client.cancel([job])
        client.wait([job])
