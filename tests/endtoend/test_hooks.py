"""The machine's prolog and epilog under a real daemon: a failure drains the machine."""

from pathlib import Path

from tests.endtoend.installation import Installation
from tests.support.waiting import until


def script(iriai: Installation, name: str, text: str) -> Path:
    """An executable script of the machine's owner."""
    program = iriai.programs / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def reason(iriai: Installation, job: str) -> str:
    """Why the job waits, once it is for a drained machine."""

    def drained() -> str:
        with iriai.client() as client:
            found = client.why(job).reasons
            text = " ".join(f"{each.rule} {each.needed} {each.had}" for each in found)
            return text if "drain" in text else ""

    return until(drained, "the machine to be drained")


def test_a_failed_prolog_drains_the_machine_and_the_task_waits(iriai: Installation):
    prolog = script(iriai, "prolog", f"test -e {iriai.work}/fit")
    iriai.configure(f'[machine]\nname = "ume"\nprolog = "{prolog}"\n')
    iriai.start()
    (iriai.work / "fit").touch()
    with iriai.client() as client:
        first = client.submit(iriai.draft("true")).id
        assert client.wait([first])[0].cause == "completed"
        (iriai.work / "fit").unlink()
        job = client.submit(iriai.draft("true")).id
    told = reason(iriai, job)
    assert f"prolog {prolog} ended with exit code 1" in told
    iriai.kill("daemon")  # what was drained stays drained
    until(iriai.runs_tasks, "the daemon")
    assert str(prolog) in reason(iriai, job)


def test_a_failed_epilog_drains_the_machine_and_the_result_stands(iriai: Installation):
    epilog = script(iriai, "epilog", "exit 7")
    iriai.configure(f'[machine]\nname = "ume"\nepilog = "{epilog}"\n')
    iriai.start()
    with iriai.client() as client:
        first = client.submit(iriai.draft("sh", "-c", "exit 2")).id
        assert client.wait([first])[0].exit_code == 2
        job = client.submit(iriai.draft("true")).id
    assert f"epilog {epilog} ended with exit code 7" in reason(iriai, job)
