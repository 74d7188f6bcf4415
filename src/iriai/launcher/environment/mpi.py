"""Variables with which the `mpirun` of OpenMPI and of MPICH starts ranks by job steps.

Each reads a host file and starts a program of its own on every host by a command like `ssh`: here
`iriai remote-shell`. Its Slurm plug-in, which a job number of Slurm would wake, is off. PRRTE is
what `mpirun` is since OpenMPI 5.
"""

from __future__ import annotations

import shlex
import sys

from iriai.launcher.contract.messages import SeatHost
from iriai.launcher.environment.private_files import write_private
from iriai.model.submission import Layout

HYDRA_FILE = ".hosts-of-hydra"
"""In the seat's private directory: the host file in the form of MPICH's process manager."""
AGENT = (sys.executable, "-P", "-m", "iriai", "remote-shell")
"""Takes a host and a command, as `ssh` does; without the working directory on its path."""
NO_AGENT = "start-programs-of-OpenMPI-with-mpirun-in-a-job-with---first"
"""A command that is not there. Of a program that is started directly, without `mpirun`, OpenMPI
would make each rank the only one; so `MPI_Init` fails instead, and its message has this."""


def mpi_variables(
    layout: Layout, seats: tuple[SeatHost, ...], host_file: str, hydra_file: str
) -> dict[str, str]:
    """Return what `iriai remote-shell` and `mpirun` need to reach the seats of an attempt.

    The files are those of `write_host_file` and `write_hydra_file`.
    """
    result = {
        "IRIAI_EXEC": shlex.join(AGENT),
        "IRIAI_ADDRESSES": ",".join(seat.address for seat in seats),
    }
    if layout is Layout.RANKS:
        return result | {"OMPI_MCA_plm_rsh_agent": NO_AGENT, "PRTE_MCA_plm_ssh_agent": NO_AGENT}
    agent = " ".join(AGENT)
    return result | {
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_ras": "^slurm",
        "OMPI_MCA_orte_default_hostfile": host_file,
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_ras": "^slurm",
        "PRTE_MCA_prte_default_hostfile": host_file,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": AGENT[0],
        "HYDRA_LAUNCHER_EXTRA_ARGS": " ".join(AGENT[1:]),
        "HYDRA_HOST_FILE": hydra_file,
        "HYDRA_RMK": "user",
    }


def write_hydra_file(directory_fd: int, seats: tuple[SeatHost, ...], uid: int) -> None:
    """Write the host file of MPICH into the seat's private directory. Raises OSError."""
    lines = (f"{seat.address}:{seat.ranks}\n" for seat in seats)
    write_private(directory_fd, HYDRA_FILE, "".join(lines).encode(), 0o600, uid)
