"""Directives of qsub as options of iriai."""

import pytest

from iriai.client.directives.block import read_block
from iriai.client.directives.reading import translate
from iriai.model.problem import Refused, UsageProblem
from tests.client.directives.reading import HOME, around, read, words

USUAL = ["--no-env", f"--chdir={HOME}"]


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ("-N sweep -j oe", ["--name=sweep", *USUAL, "--output=/work/sweep.o%n"]),
        ("-l walltime=1:30:00", ["--time=5400s", "--cpus=1", *USUAL]),
        ("-l walltime=90,cput=10:00", ["--time=90s", "--cpu-time=600s", "--cpus=1", *USUAL]),
        (
            "-l nodes=1:ppn=4:gpus=1,mem=2gb",
            ["--cpus=4", "--gpus=1", "--memory=2147483648", *USUAL],
        ),
        (
            "-l select=1:ncpus=4:mem=1gb:ngpus=2",
            ["--cpus=4", "--gpus=2", "--memory=1073741824", *USUAL],
        ),
        ("-l ncpus=2 -l pmem=1kw", ["--cpus=2", "--memory=16384", *USUAL]),
        ("-l advres=ume-r7", ["--reservation=ume-r7", "--cpus=1", *USUAL]),
        ("-W x=rsvid:ume-r7", ["--reservation=ume-r7", *USUAL]),
        ("-W x=FLAGS:ADVRES:ume-r7", ["--reservation=ume-r7", *USUAL]),
        ("-l matlab=2", ["--resource=matlab=2", "--cpus=1", *USUAL]),
        ("-l place=scatter:excl", ["--exclusive", "--cpus=1", *USUAL]),
        ("-V", [f"--chdir={HOME}"]),
        ("-v A=1,FLAVOUR", ["--env=A=1", "--env=FLAVOUR", *USUAL]),
        ("-J 1-9:2%3", ["--array=1-9:2%3", *USUAL]),
        ("-t 1,3-5%2", ["--array=1,3-5%2", *USUAL]),
        ("-h -r n -n", ["--hold", "--exclusive", "--no-restart", *USUAL]),
        ("-d /data", ["--no-env", "--chdir=/data"]),
        ("-o out.txt -e ume:/tmp/err", [*USUAL, "--output=/work/out.txt", "--error=/tmp/err"]),
        ("-o logs -j oe", [*USUAL, "--output=/work/logs/job.o%n"]),
        ("-j eo -e both", [*USUAL, "--output=/work/both"]),
        ("-J 1-2 -o logs/^array_index^ -j oe", ["--array=1-2", *USUAL, "--output=/work/logs/%t"]),
        ("-o $PBS_JOBNAME.${PBS_JOBID} -j oe", [*USUAL, "--output=/work/job.%n.%h"]),
        (
            "-W depend=afterok:ume-1:ume-2,afterany:ume-3",
            ["--after=ok:ume-1,ume-2", "--after=any:ume-3", *USUAL],
        ),
    ],
)
def test_what_is_understood(directive: str, expected: list[str]):
    assert words(f"#PBS {directive}") == expected


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        ("-l nodes=ume7:ppn=4", "it could run on another machine than 'ume7'"),
        ("-l nodes=1:ppn=4:bigmem", "might not have the property 'bigmem'"),
        ("-a 2030", "it could start before that time"),
        ("-I", "use iriai run --pty"),
        ("-W stagein=a@b:c", "the files would not be there"),
        ("-l advres=lecture", "no reservation is called so here: write its id, as ume-r7"),
        ("-W x=rsvid:lecture.1", "no reservation is called so here"),
        ("-W depend=afterok:12.server", "a job has no number alone here"),
        ("-o $NOWHERE/out", "the file would have another name"),
    ],
)
def test_what_would_run_differently_is_refused(directive: str, why: str):
    with pytest.raises(Refused) as caught:
        words(f"#PBS {directive}")
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("directives", "message"),
    [
        (("-l mem=1gb", "-l mem=2gb"), "line 2: mem=1gb contradicts line 3: mem=2gb"),
        (("-l mem=1gb", "-l pmem=1gb"), "line 2: mem=1gb contradicts line 3: pmem=1gb"),
        (("-l select=1:ncpus=2", "-l nodes=1"), "line 2: select=1:ncpus=2 contradicts line 3"),
        (("-J 1-2", "-t 1-2"), "line 2: -J 1-2 contradicts line 3: -t 1-2"),
        (("-N a", "-N b"), "line 2: -N a contradicts line 3: -N b"),
        (("-Y",), "line 2: '-Y' is not an option of qsub"),
        (("-l walltime",), "'walltime' is not NAME=VALUE"),
        (("-l walltime=soon",), "walltime=soon: not a duration"),
        (("-l mem=much",), "'much' is not a size"),
        (("-r maybe",), "'maybe' is neither y nor n"),
        (("-j both",), "'both' is neither oe, eo nor n"),
    ],
)
def test_what_is_wrong_names_its_lines(directives: tuple[str, ...], message: str):
    with pytest.raises(UsageProblem) as caught:
        words(*(f"#PBS {each}" for each in directives))
    assert message in caught.value.message


def test_what_does_no_harm_is_ignored_with_a_warning():
    found = read("#PBS -q batch -l vmem=1gb", "#PBS -k oe -W umask=002", "#PBS -W x=QOS:high")
    assert sorted(each.split(" is ignored")[0].partition(": ")[2] for each in found.warnings) == [
        "-k oe",
        "-q batch",
        "umask=002",
        "vmem=1gb",
        "x=QOS:high",
    ]


def test_mail_is_a_notice():
    found = words("#PBS -m abe -M ann@x.org,bob@x.org")
    assert found == [*USUAL, "--notify=mailto:ann@x.org", "--notify-on=end"]
    assert "--notify-on=fail" in words("#PBS -m a")
    assert words("#PBS -m n -M ann@x.org") == USUAL


def test_the_submitter_is_known_to_the_job():
    variables = read("#PBS -q batch -l ncpus=3").variables
    assert variables["PBS_O_WORKDIR"] == "/work"
    assert variables["PBS_O_HOME"] == HOME
    assert (variables["PBS_JOBNAME"], variables["PBS_QUEUE"]) == ("job", "batch")
    assert (variables["NCPUS"], variables["PBS_NP"]) == ("3", "3")


def test_a_script_without_an_interpreter_is_run_by_the_shell():
    bare = read_block(b"#PBS -N x\ntrue\n", "job")
    assert translate(bare, around()).interpreter == "/bin/bash"
    other = read_block(b"#PBS -S /bin/csh\ntrue\n", "job")
    assert translate(other, around()).interpreter == "/bin/csh"
