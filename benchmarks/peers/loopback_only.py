"""Run a command in a network namespace of its own, in which there is only the loopback device.

Ray and HyperQueue listen on every address of the machine, and their options do not prevent it. Here
nobody else can reach them.

    python loopback_only.py COMMAND [ARGUMENT]...
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
EXIT_NOT_RUN = 126

_libc = ctypes.CDLL(None, use_errno=True)


def leave_the_network() -> None:
    """Move this process into a new network namespace; raise OSError where that is refused."""
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"no network namespace: {os.strerror(error)}")
    if user != 0:
        # The user stays who they are; the new namespace only lends the right to set up the device.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def raise_loopback() -> None:
    """Bring the device `lo` up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def main() -> None:
    """Leave the network and become the command."""
    try:
        leave_the_network()
        raise_loopback()
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        sys.exit(EXIT_NOT_RUN)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
