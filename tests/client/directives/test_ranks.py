"""The tasks, nodes and chunks of a script as ranks of a job whose script runs once."""

import pytest

from iriai.model.problem import Refused, UsageProblem
from iriai.model.ranks import shape_of
from tests.client.directives.reading import HOME, read, words

USUAL = {"--no-env", f"--chdir={HOME}"}


def asked(*lines: str, **chosen: str) -> list[str]:
    """The options that say how many there are of what."""
    found = [each for each in words(*lines, **chosen) if each not in USUAL]
    given = dict(each.removeprefix("--").partition("=")[::2] for each in found)
    if "ranks" in given:
        numbers = [int(given[name]) if name in given else None for name in ("nodes", "per-node")]
        shape_of(given["ranks"], *numbers)
        found.remove("--first")  # the script itself runs once
    return found


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ("-n 1 -c 4", "--cpus=4"),
        ("-N 1", ""),
        ("-N 1-3", "--ranks=1-3 --per-node=1"),
        ("-n 8", "--ranks=8"),
        ("-n 8 -c 2 --mem-per-cpu=1G", "--ranks=8 --cpus=2 --memory=2147483648"),
        ("-N 4", "--ranks=4 --nodes=4"),
        ("-N 2 --ntasks-per-node=4", "--ranks=8 --nodes=2"),
        ("-N 2-4 --ntasks-per-node=4", "--ranks=8-16 --per-node=4"),
        ("-N 2-4 -n 8", "--ranks=8 --nodes=2"),
        ("-N 4 -n 2", "--ranks=2 --nodes=2"),
        ("--ntasks-per-node=4", "--ranks=4 --nodes=1"),
        ("-n 8 --ntasks-per-node=4", "--ranks=8 --per-node=4"),
        ("-n 7 --ntasks-per-node=4", "--ranks=7 --nodes=2"),
        ("-n 4 --ntasks-per-node=8", "--ranks=4"),
        ("-N 2 -n 8 --mem=8G", "--ranks=8 --nodes=2 --memory=2147483648"),
        ("-n 4 --mem=4G", "--ranks=4 --nodes=1 --memory=1073741824"),
        ("-N 2 -n 4 --gres=gpu:2", "--gpus=1 --ranks=4 --nodes=2"),
        ("-n 4 --gpus=8", "--gpus=2 --ranks=4"),
        ("-n 4 --gpus-per-task=1", "--gpus=1 --ranks=4"),
        ("--gpus=4 --ntasks-per-gpu=1", "--gpus=1 --ranks=4"),
        ("-N 2 --gpus-per-node=2 --ntasks-per-gpu=1", "--gpus=1 --ranks=4 --nodes=2"),
        ("-n 4 --gpus=1", "--gpus=1 --cpus=4"),
        ("-N 2 -n 4 --mincpus=8", "--ranks=4 --nodes=2 --cpus=4"),
        ("-n 2 --no-kill", "--keep-going --ranks=2"),
        ("-n 2 --no-kill=off", "--ranks=2"),
    ],
)
def test_tasks_of_sbatch_are_ranks(directive: str, expected: str):
    assert asked(f"#SBATCH {directive}") == expected.split()


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        ("-l ncpus=4", "--cpus=4"),
        ("-l nodes=1", "--cpus=1"),
        ("-l nodes=2:ppn=4", "--ranks=8 --nodes=2 --cpus=1"),
        ("-l nodes=1:ppn=4+1:ppn=4", "--ranks=8 --nodes=2 --cpus=1"),
        ("-l nodes=1:ppn=4", "--env=OMP_NUM_THREADS=4 --ranks=4 --nodes=1 --cpus=1"),
        ("-l nodes=1:ppn=2 -v OMP_NUM_THREADS=1", None),
        ("-l nodes=1:ppn=4:gpus=1", "--cpus=4 --gpus=1"),
        (
            "-l nodes=2:ppn=2:gpus=2,mem=4gb",
            "--ranks=4 --nodes=2 --cpus=1 --gpus=1 --memory=1073741824",
        ),
        ("-l procs=6", "--ranks=6 --cpus=1"),
        ("-l select=1:ncpus=4", "--cpus=4"),
        ("-l select=4:ncpus=1", "--ranks=4 --cpus=1"),
        ("-l select=2:ncpus=4:mpiprocs=2:mem=4gb", "--ranks=4 --cpus=2 --memory=2147483648"),
        ("-l select=1:ncpus=4:mpiprocs=4", "--ranks=4 --nodes=1 --cpus=1"),
        ("-l select=1:ncpus=4:mpiprocs=3", "--cpus=4"),
        (
            "-l select=2:ncpus=4:mpiprocs=2:ompthreads=1 -l place=scatter",
            "--env=OMP_NUM_THREADS=1 --ranks=4 --nodes=2 --cpus=2",
        ),
        ("-l select=2:ncpus=1 -l place=pack", "--ranks=2 --nodes=1 --cpus=1"),
        # as it was given to an OpenPBS
        (
            "-l select=2:ncpus=3:mem=100mb -l place=scatter -l walltime=00:05:00",
            "--time=300s --ranks=2 --nodes=2 --cpus=3 --memory=104857600",
        ),
    ],
)
def test_chunks_of_qsub_are_ranks(directive: str, expected: str | None):
    found = asked(f"#PBS {directive}")
    if expected is None:
        assert "--env=OMP_NUM_THREADS=1" in found
        assert "--env=OMP_NUM_THREADS=2" not in found
    else:
        assert found == expected.split()


@pytest.mark.parametrize(
    ("directive", "why"),
    [
        ("#SBATCH -N 2 -n 4 --gpus-per-node=1", "cannot have equally many"),
        ("#PBS -l nodes=1:ppn=4+1:ppn=2", "all machines would have equally many CPUs"),
        ("#PBS -l select=1:ncpus=4+2:ncpus=1", "all its chunks would be as the first"),
        ("#PBS -l select=2:ncpus=4:mpiprocs=3", "equally many CPUs and GPUs"),
        ("#PBS -l nodes=2:ppn=2:gpus=1", "equally many CPUs and GPUs"),
    ],
)
def test_what_would_be_spread_differently_is_refused(directive: str, why: str):
    with pytest.raises(Refused, match=why):
        words(directive)


def test_tasks_that_do_not_fit_their_nodes_contradict():
    with pytest.raises(UsageProblem, match="--ntasks=9 contradicts line 3: --ntasks-per-node=4"):
        words("#SBATCH -n 9", "#SBATCH --ntasks-per-node=4", "#SBATCH -N 2")


def test_the_command_line_replaces_one_number_and_the_others_follow():
    assert "--ranks=16" in asked("#SBATCH -N 2 --ntasks-per-node=4", nodes="4")
    assert "--first" in words("#SBATCH -t 10", ranks="8")
    assert "--memory=2147483648" in asked("#SBATCH -N 2 --ntasks-per-node=4 --mem=8G")
    assert "--ranks=16" in asked("#PBS -l nodes=2:ppn=4", nodes="4")


def test_variables_say_what_is_known_before_the_start():
    slurm = read("#SBATCH -N 2 -n 8 -c 2 --mem=8G").variables
    assert (slurm["SLURM_NTASKS"], slurm["SLURM_CPUS_PER_TASK"]) == ("8", "2")
    assert slurm["SLURM_MEM_PER_NODE"] == "8192"
    assert "SLURM_NTASKS" not in read("#SBATCH -N 2-4").variables
    pbs = read("#PBS -l nodes=2:ppn=4").variables
    assert (pbs["PBS_NP"], pbs["PBS_NUM_NODES"], pbs["PBS_NUM_PPN"]) == ("8", "2", "4")
