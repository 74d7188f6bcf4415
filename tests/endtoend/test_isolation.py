"""Users of one machine see and touch their own jobs; operators all."""

import subprocess

import pytest

from iriai.client import Client
from iriai.model.problem import ExitCode
from iriai.wire.requests import Jobs
from tests.endtoend.installation import Installation, installed
from tests.endtoend.trespass import becoming, words_about
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

SECRET = "the-secret-of-ann-2208"


@pytest.fixture(scope="module")
def machine(people: People):
    with installed(people.ann, "[machine]\ncpus = 2\n") as installation:
        yield installation


@pytest.fixture(scope="module")
def finished(machine: Installation) -> str:
    with machine.client() as client:
        job = client.submit(machine.draft("echo", SECRET, name=SECRET)).id
        client.wait([job])
    return job


@pytest.fixture
def waiting(machine: Installation):
    with machine.client() as client:
        job = client.submit(machine.draft("true", SECRET, name=SECRET, held=True)).id
        yield job
        client.cancel([job])


def test_nobody_reads_or_touches_what_another_handed_in(
    machine: Installation, people: People, waiting: str, finished: str
):
    for job in (waiting, finished):
        for words in words_about(job):
            done = machine.call(*words, person=people.bob, cwd=machine.directory)
            assert_refused(done, words)
    with machine.client() as client:
        assert client.show(waiting).row.state == "held"
        assert client.show(waiting).row.name == SECRET


def assert_refused(done: subprocess.CompletedProcess[str], words: tuple[str, ...]) -> None:
    assert done.returncode == ExitCode.NOT_ALLOWED, (words, done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr, words


@pytest.mark.parametrize(
    "words", [("jobs",), ("jobs", "--finished"), ("usage",), ("usage", "--by", "job")]
)
def test_listings_are_of_ones_own(
    machine: Installation, people: People, finished: str, words: tuple[str, ...]
):
    bobs = machine.call(*words, "--json", person=people.bob)
    assert bobs.returncode == 0, bobs.stderr
    assert people.ann.name not in bobs.stdout
    assert finished not in bobs.stdout
    if words != ("jobs",):
        assert people.ann.name in machine.call(*words, "--json").stdout


def test_no_stored_file_of_another_is_read_beside_the_daemon(
    machine: Installation, people: People, finished: str
):
    with machine.client() as client:
        client.submit(machine.draft("true", name="own"))
    for directory in (machine.paths.store, machine.paths.spool):
        looked = subprocess.run(
            [*becoming(people.bob), "grep", "-r", SECRET, directory],
            capture_output=True,
            text=True,
            check=False,
        )
        assert SECRET not in looked.stdout, directory


def test_operators_see_and_end_everybodys(machine: Installation, people: People):
    with machine.client() as client:
        waiting = client.submit(machine.draft("true", held=True)).id
    with Client.connect(machine.state) as root:  # the tests are root
        assert root.show(waiting).row.user == people.ann.name
        assert waiting in {row.id for row in root.jobs(Jobs(everyone=True))}
        assert root.cancel([waiting]).tasks == {waiting: 1}
    with machine.client() as client:
        until(lambda: client.show(waiting).row.state == "finished", "the end of the job")
