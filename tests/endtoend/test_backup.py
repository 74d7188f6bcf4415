"""A home is lost with its disk and comes back from a backup."""

import json
import shutil
import subprocess

from tests.endtoend.installation import IRIAI, Installation
from tests.support.waiting import until

WAITS = "while [ ! -e go ]; do sleep 0.05; done; echo done >> done-$IRIAI_JOB_ID"


def as_owner(iriai: Installation, *words: str) -> subprocess.CompletedProcess[str]:
    """Call `iriai WORDS` as the one whose state directory it is."""
    return subprocess.run(
        [IRIAI, *words],
        env=iriai.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_jobs_go_on_after_the_state_directory_was_lost(iriai: Installation):
    iriai.configure('[machine]\nname = "ume"\ncpus = 1\n')
    iriai.start()
    with iriai.client() as client:
        over = client.submit(iriai.draft("true")).id
        client.wait([over])
        running = client.submit(iriai.draft("sh", "-c", WAITS)).id
        waiting = client.submit(iriai.draft("sh", "-c", WAITS)).id
        until(lambda: client.show(running).row.state == "running", "the start")
        file = iriai.directory / "ume.iriai"
        made = as_owner(iriai, "backup", str(file), "--json")
        assert made.returncode == 0, made.stdout + made.stderr
        report = json.loads(made.stdout)
        assert (report["unfinished_jobs"], report["finished_jobs"]) == (2, 1)
        later = client.submit(iriai.draft("true")).id
    iriai.stop_processes()
    shutil.rmtree(iriai.state)
    back = as_owner(iriai, "restore", str(file))
    assert back.returncode == 0, back.stdout + back.stderr
    (iriai.work / "go").touch()
    iriai.start()
    with iriai.client() as client:
        client.wait([running, waiting])
        for job in (running, waiting):
            assert (iriai.work / f"done-{job}").read_text() == "done\n"
        assert client.show(over).row.id == over
        fresh = client.submit(iriai.draft("true")).id
        assert int(fresh.rpartition("-")[2]) > int(later.rpartition("-")[2]) + 1000
        client.wait([fresh])
    again = as_owner(iriai, "restore", str(file))
    assert (again.returncode, "is in use by process" in again.stderr) == (3, True)
