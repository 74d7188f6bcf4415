"""Jobs of a person, from the hand-in to the stored result, through real processes."""


def test_a_job_runs(iriai):
    iriai.start()
    with iriai.client() as client:
        job = client.submit(iriai.draft("sh", "-c", "echo hello; exit 3"))
        [outcome] = client.wait([job.id])
    assert (outcome.cause, outcome.exit_code) == ("failed", 3)
    assert (iriai.work / f"iriai-{job.id}.0.out").read_text() == "hello\n"
