"""What a task of a script for Slurm or PBS finds in its environment."""

import os
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import StartOrder
from iriai.launcher.environment.batch_variables import add_batch_variables, write_node_file
from iriai.model.batch_variables import BatchSystem, BatchVariables
from iriai.model.ids import AttemptId

ATTEMPT = AttemptId("ume", 42, 7, 2)
SLURM = BatchVariables(BatchSystem.SLURM, (("SLURM_JOB_NAME", "plum"),))
PBS = BatchVariables(BatchSystem.PBS, (("PBS_JOBNAME", "plum"),))


def added(
    batch: BatchVariables, *, is_array: bool = False, gpu_ids: tuple[int, ...] = ()
) -> dict[str, str]:
    environment: dict[bytes, bytes] = {}
    order = StartOrder(ATTEMPT, 0, gpu_ids)
    add_batch_variables(environment, batch, order, "/tmp/x", is_array=is_array)
    return {name.decode()[1:]: value.decode() for name, value in environment.items()}


def test_a_job_for_slurm_has_a_number():
    found = added(SLURM, gpu_ids=(1, 2))
    assert (found["SLURM_JOB_ID"], found["SLURM_JOBID"]) == ("42", "42")
    assert found["SLURM_JOB_NODELIST"] == os.uname().nodename
    assert found["SLURM_RESTART_COUNT"] == "1"
    assert (found["SLURM_JOB_GPUS"], found["SLURM_TMPDIR"]) == ("1,2", "/tmp/x")
    assert found["SLURM_JOB_NAME"] == "plum"
    assert "SLURM_ARRAY_TASK_ID" not in found
    assert "SLURM_JOB_GPUS" not in added(SLURM)


def test_tasks_of_an_array_have_different_ids():
    found = added(SLURM, is_array=True)
    assert (found["SLURM_JOB_ID"], found["SLURM_ARRAY_JOB_ID"]) == ("42_7", "42")
    assert found["SLURM_ARRAY_TASK_ID"] == "7"
    found = added(PBS, is_array=True)
    assert found["PBS_JOBID"] == "42[7].ume"
    assert (found["PBS_ARRAYID"], found["PBS_ARRAY_INDEX"]) == ("7", "7")


def test_pbs_names_each_cpu_in_a_file(tmp_path: Path):
    found = added(PBS)
    assert (found["PBS_JOBID"], found["PBS_JOBNAME"]) == ("42.ume", "plum")
    assert found["PBS_NODEFILE"] == "/tmp/x/.nodes"
    write_in(tmp_path)
    assert (tmp_path / ".nodes").read_text() == f"{os.uname().nodename}\n" * 3


def test_no_file_is_written_where_there_is_one(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / ".nodes").symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        write_in(tmp_path)
    assert not elsewhere.exists()


def write_in(directory: Path) -> None:
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        write_node_file(directory_fd, StartOrder(ATTEMPT, 0), 3, 0)
    finally:
        os.close(directory_fd)
