"""What a task of a script for Slurm or PBS finds in its environment."""

import os
from pathlib import Path

import pytest

from iriai.launcher.batch_variables import DIALECT, add_batch_variables, write_node_file
from iriai.model.ids import AttemptId

ATTEMPT = AttemptId("ume", 42, 7, 2)


def added(dialect: str, tmp: str = "/tmp/x", **others: str) -> dict[str, str]:
    environment = {DIALECT: dialect.encode()}
    environment |= {f":{name}".encode(): value.encode() for name, value in others.items()}
    add_batch_variables(environment, ATTEMPT, tmp)
    return {name.decode()[1:]: value.decode() for name, value in environment.items()}


def test_a_job_for_slurm_has_a_number():
    found = added("slurm", CUDA_VISIBLE_DEVICES="1,2")
    assert (found["SLURM_JOB_ID"], found["SLURM_JOBID"]) == ("42", "42")
    assert found["SLURM_JOB_NODELIST"] == os.uname().nodename
    assert found["SLURM_RESTART_COUNT"] == "1"
    assert (found["SLURM_JOB_GPUS"], found["SLURM_TMPDIR"]) == ("1,2", "/tmp/x")
    assert "SLURM_ARRAY_TASK_ID" not in found


def test_tasks_of_an_array_have_different_ids():
    found = added("slurm-array")
    assert (found["SLURM_JOB_ID"], found["SLURM_ARRAY_JOB_ID"]) == ("42_7", "42")
    assert found["SLURM_ARRAY_TASK_ID"] == "7"
    found = added("pbs-array")
    assert found["PBS_JOBID"] == "42[7].ume"
    assert (found["PBS_ARRAYID"], found["PBS_ARRAY_INDEX"]) == ("7", "7")


def test_pbs_names_each_cpu_in_a_file(tmp_path: Path):
    found = added("pbs", str(tmp_path))
    assert found["PBS_JOBID"] == "42.ume"
    write_node_file({f":{name}".encode(): value.encode() for name, value in found.items()}, 3, 0)
    assert Path(found["PBS_NODEFILE"]).read_text() == f"{os.uname().nodename}\n" * 3


def test_no_file_is_written_where_there_is_one(tmp_path: Path):
    path = tmp_path / "file"
    path.symlink_to(tmp_path / "elsewhere")
    environment = {DIALECT: b"pbs", b":PBS_NODEFILE": os.fsencode(path)}
    with pytest.raises(FileExistsError):
        write_node_file(environment, 1, 0)
    write_node_file({b":PBS_NODEFILE": os.fsencode(tmp_path / "inherited")}, 1, 0)
    assert not (tmp_path / "inherited").exists()


def test_an_unknown_dialect_adds_nothing():
    assert set(added("lsf")) == {"IRIAI_DIRECTIVES"}
