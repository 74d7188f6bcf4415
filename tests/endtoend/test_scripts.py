"""Scripts in the manner of public ones, for Slurm and PBS, run as they are written."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.endtoend.installation import Installation
from tests.support.people import TestPerson

SCRIPTS = Path(__file__).parents[1] / "scripts"
CONFIGURATION = """
[machine]
name = "ume"
cpus = 4
gpus = 2
[machine.resources]
stata = 1
[jobs]
sendmail = "/nowhere/sendmail"
[identity]
minimum_uid = 0
"""
SECRET = "SECRET_OF_A_TEST"


class Story(NamedTuple):
    """What is there before a script runs, how it is handed in, and what must be there after."""

    after: Mapping[str, str]
    """Files by name; `{n}` is the job's number, `{user}` who handed it in."""
    before: Mapping[str, str] = {}
    """A name that ends in `/` is a directory."""
    words: tuple[str, ...] = ()


STORIES = {
    "blast_array.sbatch": Story(
        {
            "logs/blast_{n}_1.out": "task 1 of 3: plum with 2 threads\n",
            "logs/blast_{n}_3.out": "task 3 of 3: pear with 2 threads\n",
            "logs/blast_{n}_3.err": "",
            "results/plum.count": "2\n",
            "results/pear.count": "1\n",
        },
        {
            "samples.txt": "plum\nfig\npear\n",
            "plum.fa": ">a\nCAT\n>b\nTAG\n",
            "fig.fa": ">a\nC\n",
            "pear.fa": ">a\nA\n",
            "logs/": "",
            "results/": "",
        },
    ),
    "align_sample.sbatch": Story(
        {"slurm-{n}.out": "aligned reads.txt\n", "reads.counts": "A 1\nC 2\n"},
        {"reads.txt": "C\nA\nC\n"},
        ("reads.txt",),
    ),
    "openmp.sbatch": Story({"omp.log": "threads 4 memory 200\nsum 204\n"}),
    "train_gpu.sbatch": Story(
        {
            "train.{n}.log": "resumed at 3\ngpus 1 devices 0 restart 0\nport is a number\n"
            "epoch 4\nepoch 5\n",
            "checkpoints/last": "5\n",
        },
        {"checkpoints/": "", "checkpoints/last": "3\n"},
    ),
    "sweep.sbatch": Story(
        {"sweep_0.txt": "rate=0.1 seed=1\n", "sweep_5.txt": "rate=0.001 seed=2\n"}
    ),
    "stepped_array.sbatch": Story(
        {
            "chunk_{n}_0.out": "0 to 9, last 20\n",
            "chunk_{n}_20.out": "20 to 29, last 20\n",
        }
    ),
    "r_analysis.sbatch": Story(
        {"r.out": "mean 4\n", "r.err": "R analysis has finished\n"},
    ),
    "matlab.sbatch": Story({"matlab_job-{user}.out": "42\n"}),
    "conda_env.sbatch": Story(
        {"sub/conda.out": "plum in sub, handed in from conda_env.sbatch.d\n"}, {"sub/": ""}
    ),
    "clean_environment.sbatch": Story(
        {"clean.out": "given: nothing\njob: clean_environment.sbatch, node: here\n"}
    ),
    "heredoc.sbatch": Story({"heredoc.out": "nested on one\n"}),
    "perl_job.sbatch": Story({"perl.out": "perl with 1 task and a b\n"}, words=("a", "b")),
    "both_systems.sbatch": Story({"both.out": "under slurm\n"}),
    "omp.pbs": Story({"omp_job.o{n}": "job {n} as omp_job with 2 cpus, threads 2\n"}),
    "torque_array.pbs": Story(
        {
            "logs/variants.o{n}.1": "done chr1.vcf\n",
            "logs/variants.o{n}.3": "done chr3.vcf\n",
            "logs/variants.e{n}.3": "",
            "chr1.n": "1\n",
            "chr3.n": "3\n",
        },
        {
            "chr1.vcf": "#head\na\n",
            "chr2.vcf": "a\nb\n",
            "chr3.vcf": "#head\na\nb\nc\n",
            "logs/": "",
        },
    ),
    "pro_array.pbs": Story({"0.log": "index 0 of an array\n", "4.log": "index 4 of an array\n"}),
    "home_directory.pbs": Story({"out.txt": "at home\ngiven: nothing\n", "err.txt": "a word\n"}),
    "variables.pbs": Story({"variables.out": "plum plain in sub\n"}, {"sub/": ""}),
    "checkpointed.pbs": Story({"chain.o{n}": "step 8 in a PBS_BATCH job\n"}, {"step": "7\n"}),
}
"""By script; first_step and last_step have a test of their own."""


@pytest.fixture(scope="module")
def iriai(person: TestPerson | None) -> Iterator[Installation]:
    installation = Installation(person)
    installation.configure(CONFIGURATION)
    try:
        with home_directory(person):
            yield installation.start()
    finally:
        installation.stop()


@contextmanager
def home_directory(person: TestPerson | None) -> Iterator[None]:
    """Where jobs for PBS begin; people who exist for tests alone have none."""
    if person is None:
        yield
        return
    path = Path(pwd.getpwnam(person.name).pw_dir)
    path.mkdir()
    os.chown(path, person.uid, person.gid)
    try:
        yield
    finally:
        shutil.rmtree(path)


def place(iriai: Installation, script: str, before: Mapping[str, str]) -> Path:
    """A directory of the submitter with the script and what it needs."""
    directory = iriai.work / f"{script}.d"
    directory.mkdir()
    shutil.copy(SCRIPTS / script, directory)
    for name, text in before.items():
        path = directory / name
        path.mkdir(exist_ok=True) if name.endswith("/") else path.write_text(text)
    if iriai.person is not None:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, iriai.person.uid, iriai.person.gid)
    return directory


def submitted(iriai: Installation, directory: Path, *words: str) -> str:
    """The job that is handed in there."""
    home = pwd.getpwnam(person_name(iriai)).pw_dir
    done = iriai.call("submit", *words, cwd=directory, HOME=home, **{SECRET: "plain"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("script", STORIES)
def test_a_script_runs_as_it_is_written(iriai: Installation, script: str):
    story = STORIES[script]
    directory = place(iriai, script, story.before)
    job = submitted(iriai, directory, script, *story.words)
    waited = iriai.call("wait", job)
    assert waited.returncode == 0, waited.stdout
    known = {"n": job.rpartition("-")[2], "user": person_name(iriai)}
    for name, text in story.after.items():
        path = directory / name.format(**known)
        assert path.exists(), sorted(str(each) for each in directory.rglob("*"))
        assert path.read_text() == text.format(**known), name


def person_name(iriai: Installation) -> str:
    """Who hands jobs in."""
    return iriai.person.name if iriai.person else pwd.getpwuid(os.geteuid()).pw_name


def test_a_pipeline_of_scripts_runs_in_order(iriai: Installation):
    directory = place(iriai, "first_step.sbatch", {})
    shutil.copy(SCRIPTS / "last_step.sbatch", directory)
    first = submitted(iriai, directory, "--hold", "first_step.sbatch")
    last = submitted(iriai, directory, "--after", f"ok:{first}", "last_step.sbatch")
    iriai.call("release", first)
    assert iriai.call("wait", last).returncode == 0
    assert (directory / "collect.out").read_text() == "collected 3\n"


def test_no_script_is_without_a_story():
    scripts = {path.name for path in SCRIPTS.iterdir()}
    assert scripts == set(STORIES) | {"first_step.sbatch", "last_step.sbatch"}
    assert len(scripts) >= 20


def test_what_stands_on_the_command_line_counts_more(iriai: Installation):
    directory = iriai.work / "own"
    directory.mkdir()
    script = directory / "job"
    script.write_text(
        "#!/bin/sh\n#SBATCH -c 4 -J slurm -t 10\n#IRIAI --name own --cpus 3\n"
        "#SBATCH --export=NONE\necho $SLURM_CPUS_ON_NODE $SLURM_JOB_NAME\n"
    )
    if iriai.person is not None:
        os.chown(directory, iriai.person.uid, iriai.person.gid)
    job = submitted(iriai, directory, "--cpus", "2", "job")
    assert iriai.call("wait", job).returncode == 0
    assert iriai.call("logs", job).stdout == "2 own\n"
    plain = submitted(iriai, directory, "--no-directives", "job")
    assert iriai.call("wait", plain).returncode == 0
    assert (directory / f"iriai-{plain}.0.out").read_text() == "\n"


def test_mail_that_cannot_be_sent_is_told_and_keeps_no_script_back(iriai: Installation):
    text = "#!/bin/sh\n#SBATCH --mail-type=FAIL\ntrue\n"
    done = iriai.call("submit", "-", stdin=text)
    assert done.returncode == 0
    assert "-, line 2: mail is ignored: this machine cannot send mail" in done.stderr
    assert iriai.call("wait", done.stdout.strip()).returncode == 0
    own = "#!/bin/sh\n#IRIAI --notify mailto:ann\n"
    assert iriai.call("submit", "-", stdin=own).returncode == 3


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("#IRIAI --time soon", 2, "-, line 2: --time: 'soon' is not a duration"),
        ("#IRIAI --colour red", 2, "-, line 2: no such option: --colour"),
        ("#IRIAI --json", 2, "-, line 2: --json cannot stand in a script"),
        ("#IRIAI true", 2, "-, line 2: 'true' is not an option"),
        ("#IRIAI --cpus 1\n#IRIAI --cpus 2", 2, "line 2: --cpus=1 contradicts line 3: --cpus=2"),
        ("#IRIAI --no-restart\n#IRIAI --max-restarts 2", 2, "line 2: --no-restart contradicts"),
        ("#SBATCH --mem=1G\n#SBATCH --mem-per-cpu=1G", 2, "line 2: --mem=1G contradicts line 3"),
        ("#SBATCH -C v100", 3, "-, line 2: --constraint=v100: it could run on a machine without"),
        ("#PBS -I", 3, "-, line 2: -I: it would run without a terminal"),
    ],
)
def test_what_is_wrong_in_a_script_is_one_line(
    iriai: Installation, line: str, code: int, message: str
):
    done = iriai.call("submit", "--no-check", "-", stdin=f"#!/bin/sh\n{line}\ntrue\n")
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
