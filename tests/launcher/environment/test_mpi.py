"""What `mpirun` needs to start ranks by job steps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from iriai.launcher.contract.messages import SeatHost
from iriai.launcher.environment.mpi import (
    AGENT,
    HYDRA_FILE,
    NO_AGENT,
    mpi_variables,
    write_hydra_file,
)
from iriai.model.submission import Layout

SEATS = (SeatHost("ume", "10.0.0.1", 2), SeatHost("take", "10.0.0.2", 1))


def test_a_command_that_starts_the_rest_finds_agent_and_hosts():
    found = mpi_variables(Layout.FIRST, SEATS, "/tmp/hosts", "/tmp/hydra")
    assert found["OMPI_MCA_orte_default_hostfile"] == "/tmp/hosts"
    assert found["HYDRA_HOST_FILE"] == "/tmp/hydra"
    agent = found["OMPI_MCA_plm_rsh_agent"]
    assert found["PRTE_MCA_plm_ssh_agent"] == agent
    assert f"{found['HYDRA_LAUNCHER_EXEC']} {found['HYDRA_LAUNCHER_EXTRA_ARGS']}" == agent
    assert found["IRIAI_ADDRESSES"] == "10.0.0.1,10.0.0.2"


def test_the_agent_is_a_command_of_this_installation():
    done = subprocess.run([*AGENT, "--help"], capture_output=True, text=True, check=True)
    assert "remote-shell" in done.stdout


def test_ranks_that_are_started_directly_find_an_agent_that_is_not_there():
    found = mpi_variables(Layout.RANKS, SEATS, "/tmp/hosts", "/tmp/hydra")
    assert found["OMPI_MCA_plm_rsh_agent"] == NO_AGENT
    assert "mpirun" in NO_AGENT
    assert not any(name.startswith("HYDRA") for name in found)
    assert found["IRIAI_EXEC"]


def test_the_host_file_of_mpich_is_the_users_alone(tmp_path: Path):
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        write_hydra_file(directory, SEATS, os.getuid())
    finally:
        os.close(directory)
    file = tmp_path / HYDRA_FILE
    assert file.read_text() == "10.0.0.1:2\n10.0.0.2:1\n"
    assert file.stat().st_mode & 0o777 == 0o600
