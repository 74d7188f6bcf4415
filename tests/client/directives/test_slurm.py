"""Directives of sbatch as options of iriai."""

import pytest

from iriai.model.batch_variables import BatchSystem
from iriai.model.problem import Refused, UsageProblem
from tests.client.directives.reading import read, words


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ("-J align", ["--name=align"]),
        ("--job-name=align", ["--name=align"]),
        ("--job-name align", ["--name=align"]),
        ("-t 30", ["--time=1800s"]),
        ("-t 1:30", ["--time=90s"]),
        ("-t 2:00:00", ["--time=7200s"]),
        ("-t 1-12", ["--time=129600s"]),
        ("-t 1-12:30", ["--time=131400s"]),
        ("--time=1-00:00:30", ["--time=86430s"]),
        ("-c4", ["--cpus=4"]),
        ("--mem=4000", ["--memory=4194304000"]),
        ("--mem=2G", ["--memory=2147483648"]),
        ("--mem=0 --exclusive", ["--exclusive"]),
        ("--gres=gpu:2", ["--gpus=2"]),
        ("--gres=gpu --gpus-per-node=1", ["--gpus=1"]),
        (
            "--gpus=2 --cpus-per-gpu=4 --mem-per-gpu=1M",
            ["--gpus=2", "--cpus=8", "--memory=2097152"],
        ),
        ("--gres=licence:2,gpu:1", ["--resource=licence=2", "--gpus=1"]),
        ("-L matlab:2,r", ["--resource=matlab=2", "--resource=r=1"]),
        ("-a 0-15:4%2", ["--array=0-15:4%2"]),
        ("-D /data", ["--chdir=/data"]),
        ("-i in.txt", ["--stdin=in.txt"]),
        ("--export=NONE", ["--no-env"]),
        ("--export=ALL,A=1", ["--env=A=1"]),
        ("--export=A=1,FLAVOUR", ["--env=A=1", "--env=FLAVOUR", "--no-env"]),
        ("-H --no-requeue", ["--hold", "--no-restart"]),
        (
            "-d afterok:ume-1:ume-2,afterany:ume-3.4",
            ["--after=ok:ume-1,ume-2", "--after=any:ume-3.4"],
        ),
        ("-d afternotok:ume-1", ["--after=fail:ume-1"]),
        ("--reservation=ume-r7", ["--reservation=ume-r7"]),
        ("-o 'run_%j.%%' -e %x.err", ["--output=run_%n.%%", "--error=job.err"]),
        ("-a 1-2 -o %A_%a.%j.%u", ["--array=1-2", "--output=%n_%t.%n_%t.ann"]),
    ],
)
def test_what_is_understood(directive: str, expected: list[str]):
    assert words(f"#SBATCH {directive}") == expected


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        ("-C skylake", "it could run on a machine without that feature"),
        ("--gres=gpu:a100:1", "the GPU might not be one of the kind 'a100'"),
        ("-d afterok:1234", "a job has no number alone here"),
        ("--reservation=lecture", "no reservation is called so here: write its id, as ume-r7"),
        ("--reservation=ume-r7,ume-r8", "no reservation is called so here"),
        ("--reservation=ume-7", "no reservation is called so here"),
        ("-d singleton", "'singleton' is not a kind of dependency"),
        ("-d afterok:ume-1?afterok:ume-2", "all must hold"),
        ("-o %N.out", "no %N here"),
        ("--mem=0", "it would not have all memory"),
        ("--begin=now+1hour", "it could start before that time"),
    ],
)
def test_what_would_run_differently_is_refused(directive: str, why: str):
    with pytest.raises(Refused) as caught:
        words(f"#SBATCH {directive}")
    assert why in caught.value.message
    assert "--no-directives" in caught.value.hint


def test_all_that_is_refused_is_told_at_once():
    with pytest.raises(Refused, match=r"job, line 2: --constraint=a: .*; line 4: --begin=2030: "):
        words("#SBATCH -C a", "#SBATCH -J x", "#SBATCH -b 2030")


@pytest.mark.parametrize(
    ("directives", "message"),
    [
        (("--mem=1G", "--mem-per-cpu=1G"), "line 2: --mem=1G contradicts line 3: --mem-per-cpu=1G"),
        (("-t 10", "-t 20"), "line 2: --time=10 contradicts line 3: --time=20"),
        (("--requeue", "--no-requeue"), "line 2: --requeue contradicts line 3: --no-requeue"),
        (("--gpus=2", "--gres=gpu:1"), "line 2: --gpus=2 contradicts line 3: --gres=gpu:1"),
        (("-n 8", "--ntasks-per-node=4", "-N 1"), "line 2: --ntasks=8 contradicts line 3"),
        (("--nonsense",), "line 2: '--nonsense' is not an option of sbatch"),
        (("-c",), "line 2: -c needs a value"),
        (("-c two",), "line 2: --cpus-per-task=two: 'two' is not a number"),
        (("--mem=much",), "line 2: --mem=much: not a size"),
        (("-t soon",), "line 2: --time=soon: not a time limit"),
    ],
)
def test_what_is_wrong_names_its_lines(directives: tuple[str, ...], message: str):
    with pytest.raises(UsageProblem) as caught:
        words(*(f"#SBATCH {each}" for each in directives))
    assert message in caught.value.message


def test_the_same_twice_is_no_contradiction():
    assert words("#SBATCH -c 2", "#SBATCH --cpus-per-task=2") == ["--cpus=2"]


def test_what_does_no_harm_is_ignored_with_a_warning():
    found = read("#SBATCH -p gpu --qos=high", "#SBATCH -J a")
    assert found.warnings[0] == (
        "scripts/job, line 2: --partition=gpu is ignored: there are no partitions"
    )
    assert len(found.warnings) == 2


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ("--mail-type=END,FAIL --mail-user=ann@x.org", ["--notify=mailto:ann@x.org", "end"]),
        ("--mail-type=FAIL", ["--notify=mailto:ann", "fail"]),
        ("--mail-type=ALL", ["--notify=mailto:ann", "end"]),
        ("--mail-type=NONE --mail-user=ann@x.org", []),
        ("--mail-user=ann@x.org", []),
        ("--mail-type=BEGIN", []),
    ],
)
def test_mail_is_a_notice(directive: str, expected: list[str]):
    found = words(f"#SBATCH {directive}")
    assert [each.removeprefix("--notify-on=") for each in found] == expected


def test_the_command_line_counts_in_what_is_computed():
    assert "--memory=4294967296" in words("#SBATCH --mem-per-cpu=1G -c 2", cpus="4")
    found = read("#SBATCH -n 2 -c 2 -o %x.%A.%j", cpus="8", name="other", array="1-9:4")
    assert found.variables["SLURM_CPUS_PER_TASK"] == "8"
    assert "--output=other.%n.%n_%t" in [each.word for each in found.settings]
    array = {key: value for key, value in found.variables.items() if "ARRAY" in key}
    assert array == {
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_MAX": "9",
        "SLURM_ARRAY_TASK_STEP": "4",
    }


def test_output_goes_where_sbatch_puts_it():
    assert read("#SBATCH -c 1").settings[-1].word == "--output=slurm-%n.out"
    assert read("#SBATCH -a 1-2").settings[-1].word == "--output=slurm-%n_%t.out"


def test_a_script_for_both_systems_is_taken_for_slurm():
    found = read("#PBS -l nodes=7:ppn=2", "#SBATCH -c 2")
    assert found.system is BatchSystem.SLURM
    assert "#PBS is ignored" in found.warnings[0]


def test_a_directive_after_the_first_command_is_ignored_with_a_warning():
    assert read("#SBATCH -c 2", "cd /tmp", "#SBATCH -c 4").warnings == (
        "scripts/job, line 4: #SBATCH is ignored: it follows the first command",
    )
    assert read("cat > other <<E", "#SBATCH -c 4", "E").warnings == ()
