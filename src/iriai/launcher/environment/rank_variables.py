"""What the ranks of a parallel task find in their environment (docs/spec/011, section 6)."""

from __future__ import annotations

import os
import re
from functools import cache

from iriai.launcher.contract.messages import SeatHost, StartOrder
from iriai.launcher.environment.mpi import HYDRA_FILE, mpi_variables, write_hydra_file
from iriai.launcher.environment.private_files import write_private
from iriai.model.ranks import RANKS_MAX
from iriai.model.sizes import ARGUMENT_BYTES_MAX
from iriai.model.submission import Layout
from iriai.system.interfaces import free_port

HOST_FILE = ".hosts"
"""In the seat's private directory: what `$IRIAI_HOSTFILE` names."""
LOCAL_ADDRESS = "127.0.0.1"
_NAME_BYTES = 32
"""The longest name of a variable that lists machines, and its equals sign."""
_PLAIN = re.compile(r"[\w.:%\[\]-]{1,255}", re.ASCII)
"""Names of machines and their addresses: nothing that would divide a line or a list."""


def seats_of(order: StartOrder) -> tuple[SeatHost, ...]:
    """Return all seats of the attempt; where there is but one, it needs no network."""
    return order.seats or (SeatHost(this_machine(), LOCAL_ADDRESS, order.ranks),)


def seats_problem(order: StartOrder) -> str:
    """Return what contradicts in an order, for people; empty: nothing."""
    first = order.attempt.rank
    if not order.seats:
        return f"it is the only seat, and begins with rank {first}" if first else ""
    counted, is_there = 0, False
    for seat in order.seats:
        for text in (seat.machine, seat.address):
            if not _PLAIN.fullmatch(text):
                return f"{text[:64]!r} is no name or address of a machine"
        is_there = is_there or (counted == first and seat.ranks == order.ranks)
        counted += seat.ranks
    if counted > RANKS_MAX:
        return f"its seats have {counted} ranks, more than RANKS_MAX = {RANKS_MAX}"
    if not is_there:
        return f"none of its seats begins with rank {first} and has {order.ranks}"
    longest = max(
        sum(len(seat.machine) + 1 for seat in order.seats),
        sum(len(seat.address) + 1 for seat in order.seats),
    )
    if longest > ARGUMENT_BYTES_MAX - _NAME_BYTES:
        return (
            f"the names of its {len(order.seats)} machines have {longest} bytes; a variable can "
            f"have ARGUMENT_BYTES_MAX = {ARGUMENT_BYTES_MAX}: ask for fewer machines"
        )
    return ""


def seat_number(order: StartOrder) -> int:
    """Return the place of the seat among all of them, from 0."""
    counted = 0
    for place, seat in enumerate(order.seats):
        if counted == order.attempt.rank:
            return place
        counted += seat.ranks
    return 0


def seat_variables(order: StartOrder, layout: Layout, tmp: str) -> dict[bytes, bytes]:
    """Return the variables that all ranks of a seat share; `tmp` is its private directory.

    Those of torchrun that say who a process is are for ranks alone: what a command of layout FIRST
    starts by itself would take them for its own.
    """
    seats = seats_of(order)
    ranks, nodes = sum(seat.ranks for seat in seats), len(seats)
    result = {
        "IRIAI_RANKS": ranks,
        "IRIAI_LOCAL_RANKS": order.ranks,
        "IRIAI_NODES": nodes,
        "IRIAI_NODE_RANK": seat_number(order),
        "IRIAI_NODELIST": ",".join(seat.machine for seat in seats),
        "IRIAI_HOSTFILE": f"{tmp}/{HOST_FILE}",
        "MASTER_ADDR": seats[0].address,
    }
    told = 0 if order.parallel is None else order.parallel.port
    port = told or (0 if order.seats else free_port())
    if port:
        result["MASTER_PORT"] = port
    result |= mpi_variables(layout, seats, f"{tmp}/{HOST_FILE}", f"{tmp}/{HYDRA_FILE}")
    if layout is Layout.RANKS:
        result["WORLD_SIZE"] = ranks
        result["LOCAL_WORLD_SIZE"] = order.ranks
        result["GROUP_RANK"] = result["IRIAI_NODE_RANK"]
    return {b":" + name.encode(): os.fsencode(str(value)) for name, value in result.items()}


def rank_variables(order: StartOrder, layout: Layout, rank: int) -> dict[bytes, bytes]:
    """Return the variables of one rank of a seat."""
    own, local = b"%d" % rank, b"%d" % (rank - order.attempt.rank)
    result = {b":IRIAI_RANK": own, b":IRIAI_LOCAL_RANK": local}
    if layout is Layout.RANKS:
        result[b":RANK"], result[b":LOCAL_RANK"] = own, local
    return result


def pmi_variables(order: StartOrder, rank: int, pmi_fd: int) -> dict[bytes, bytes]:
    """Return the variables by which an MPI program finds its process manager (PMI-1)."""
    return {
        b":PMI_FD": b"%d" % pmi_fd,
        b":PMI_RANK": b"%d" % rank,
        b":PMI_SIZE": b"%d" % sum(seat.ranks for seat in seats_of(order)),
    }


def rank_gpus(order: StartOrder, layout: Layout, rank: int) -> tuple[int, ...]:
    """Return the cards of one rank: those of the seat, divided in order of rank.

    A command of layout FIRST has all of the seat, and so have its job steps, which start several.
    """
    if layout is Layout.FIRST or order.ranks == 1:
        return order.gpu_ids
    place, count = rank - order.attempt.rank, len(order.gpu_ids)
    return order.gpu_ids[count * place // order.ranks : count * (place + 1) // order.ranks]


def write_host_file(directory_fd: int, order: StartOrder, uid: int) -> None:
    """Write the file of `$IRIAI_HOSTFILE` into the seat's private directory. Raises OSError.

    Beside it stands that of MPICH.
    """
    seats = seats_of(order)
    lines = (f"{seat.address} slots={seat.ranks}\n" for seat in seats)
    write_private(directory_fd, HOST_FILE, "".join(lines).encode(), 0o600, uid)
    write_hydra_file(directory_fd, seats, uid)


@cache
def this_machine() -> str:
    """Return the host name of this machine."""
    return os.uname().nodename
