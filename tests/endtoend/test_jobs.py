"""Jobs of a person, from the hand-in to the stored result, through real processes."""

import pytest

from iriai.plugins.orders import BUILT_IN


@pytest.mark.parametrize("order", BUILT_IN)
def test_a_job_and_an_array_run_under_each_order(iriai, order):
    iriai.configure(f'[machine]\ncpus = 2\n[order]\nname = "{order}"\n')
    iriai.start()
    with iriai.client() as client:
        job = client.submit(iriai.draft("sh", "-c", "echo hello; exit 3"))
        array = client.submit(iriai.draft("true", array=((1, 20, 1),), output="/dev/null"))
        ends = client.wait([job.id, array.id])
        assert client.status().order == order
        usage = client.usage().rows
    assert [(end.cause, end.exit_code) for end in ends] == [("failed", 3), ("completed", 0)]
    assert (iriai.work / f"iriai-{job.id}.0.out").read_text() == "hello\n"
    assert [(row.tasks, row.failed) for row in usage] == [(21, 1)]
