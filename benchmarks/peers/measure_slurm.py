"""Slurm's gang mode: two jobs of a rank on each of several nodes of one processor, in time slices.

A private Slurm on this host: `munged`, `slurmctld` and a `slurmd` for each node. Time slices are
the shortest that it takes. The ranks note when they run; whoever called reads the notes.
"""

import argparse
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from report import make_folder

SLICE_S = 5
CONTROLLER_PORT, NODE_PORT = 16817, 16900
"""Nobody else is in the network of a peer."""
ADDRESS = "192.0.2.1"
"""Of the loopback device too: where there is 127.0.0.1 alone, Slurm cannot even resolve that."""
SIOCSIFADDR = 0x8916
WAIT_S = 60.0
STOP_S = 10.0
MUNGED, CONTROLLER, NODE = "munged", "slurmctld", "slurmd"
CONFIGURATION = """\
ClusterName=gangs
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PreemptMode=GANG
SchedulerTimeSlice={slice_s}
KillWait=1
ReturnToService=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:2
"""
NODE_LINE = "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
RANKS = "exec srun sh -c 'exec {program} note {notes}-$SLURM_PROCID'"
AFTER_A_PAUSE = """\
last=$(date +%s)
while sleep 0.2; now=$(date +%s); test $((now - last)) -lt 3; do last=$now; done
"""
"""Of a job beside another: the ranks start with a slice. Where it ends first, Slurm waits long."""


class Slurm:
    """A private Slurm, whose files lie in `folder`."""

    def __init__(self, folder: Path, nodes: int) -> None:
        os.environ["PATH"] += ":/usr/sbin"
        for name in (MUNGED, CONTROLLER, NODE):
            if shutil.which(name) is None:
                raise SystemExit(f"there is no program {name}; apt-get install slurm-wlm munge")
        folder.chmod(0o755)
        (folder / "state").mkdir()
        host = socket.gethostname().partition(".")[0]
        rows = [
            NODE_LINE.format(number=number, host=host, port=NODE_PORT + number)
            for number in range(nodes)
        ]
        self._file = folder / "slurm.conf"
        self._file.write_text(
            CONFIGURATION.format(
                host=host,
                folder=folder,
                controller_port=CONTROLLER_PORT,
                slice_s=SLICE_S,
                nodes="\n".join(rows),
            )
        )
        os.environ["SLURM_CONF"] = str(self._file)
        self._folder, self._nodes = folder, nodes
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all daemons; return when all nodes are idle."""
        key = self._folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        places = {"socket": "munge", "pid-file": "munged.pid", "seed-file": "munged.seed"}
        options = [f"--{name}={self._folder / place}" for name, place in places.items()]
        self._spawn(MUNGED, "--foreground", f"--key-file={key}", *options)
        until((self._folder / "munge").exists, "munged")
        self._spawn(CONTROLLER, "-D", "-c", "-f", str(self._file))
        for number in range(self._nodes):
            self._spawn(NODE, "-D", "-N", f"n{number}", "-f", str(self._file))
        until(self._is_idle, "idle nodes")

    def submit(self, script: str) -> None:
        """Submit a job of a rank on each node."""
        shape = [f"--nodes={self._nodes}", f"--ntasks={self._nodes}", "--output=/dev/null"]
        command = ["sbatch", "--quiet", *shape, f"--wrap={script}"]
        subprocess.run(command, cwd=self._folder, check=True)

    def version(self) -> str:
        """Return what `slurmctld -V` says the version is."""
        said = subprocess.run([CONTROLLER, "-V"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1]

    def stop(self) -> None:
        """End all daemons, the last one first; whoever called ends what is left."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _spawn(self, *command: str) -> None:
        log = self._folder / f"log-{len(self._daemons)}"
        with log.open("wb") as file:
            self._daemons.append(subprocess.Popen(command, stdout=file, stderr=file))

    def _is_idle(self) -> bool:
        words = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
        return bool(said) and int(said[0]) == self._nodes


def add_address() -> None:
    """Give the loopback device, which has to be the only one, `ADDRESS` too."""
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        raise SystemExit("to be run by loopback_only.py: there are other devices")
    request = struct.pack("=16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(ADDRESS))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFADDR, request)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.1)


def all_note(place: str, ranks: int) -> bool:
    """Whether all ranks of a gang have noted that they ran."""
    notes = [Path(f"{place}-{rank}").read_bytes() for rank in range(ranks)]
    return all(struct.unpack_from("=q", each, 8)[0] for each in notes)


def main() -> None:
    """Run both gangs for some time."""
    parser = argparse.ArgumentParser(description="Run two gangs in Slurm.")
    parser.add_argument("measure", choices=("gangs",))
    parser.add_argument("--tasks", type=int, required=True, help="ranks of each gang")
    parser.add_argument("--program", required=True, help="of the ranks")
    parser.add_argument("--notes", required=True, help="-GANG-RANK is added to this path")
    parser.add_argument("--seconds", type=float, required=True, help="in which both take turns")
    given = parser.parse_args()
    add_address()
    slurm = Slurm(make_folder("slurm-"), given.tasks)
    try:
        slurm.start()
        for gang, before in enumerate(("", AFTER_A_PAUSE)):
            place = f"{given.notes}-{gang}"
            slurm.submit(before + RANKS.format(program=given.program, notes=place))
            until(lambda: all_note(place, given.tasks), f"the ranks of gang {gang}")  # noqa: B023
        began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        time.sleep(given.seconds)
    finally:
        slurm.stop()
    settings = {"slice_s": SLICE_S, "proctrack": "linuxproc", "run_as": "the caller"}
    answer = {"peer": "slurm", "version": slurm.version(), "began_s": began_s, "settings": settings}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
