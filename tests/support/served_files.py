"""A file system that a user serves (FUSE), as sshfs does: nobody but that user is let in.

Root mounts it as fusermount does; a process of the user then answers the kernel. It holds one
directory with files in memory. Called as a program: DIRECTORY UID GID; it prints a line when it
serves, and ends with its standard input.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOSUID, NODEV = 2, 4
REQUEST = struct.Struct("<IIQQIIII")
"""Of each question: length, what, its number, which file; who asks."""
REQUEST_BYTES_MAX = 1 << 20
ROOT = 1
"""The number of the directory."""


class Files:
    """What the file system holds, and its answers; by the kernel's linux/fuse.h."""

    def __init__(self, uid: int, gid: int) -> None:
        self.uid, self.gid = uid, gid
        self.names: dict[bytes, int] = {}
        self.contents: dict[int, bytearray] = {}

    def answer(self, what: int, node: int, body: bytes) -> bytes:
        """The answer to one question. Raises OSError where that is the answer."""
        match what:
            case 1:  # LOOKUP
                return self._entry(self._find(body.rstrip(b"\0")))
            case 3 | 4:  # GETATTR, SETATTR
                return struct.pack("<QII", 0, 0, 0) + self._attributes(node)
            case 14 | 27:  # OPEN, OPENDIR
                return bytes(16)
            case 15:  # READ
                _, offset, size = struct.unpack_from("<QQI", body)
                return bytes(self.contents[node][offset : offset + size])
            case 16:  # WRITE
                _, offset, size = struct.unpack_from("<QQI", body)
                self.contents[node][offset : offset + size] = body[40 : 40 + size]
                return struct.pack("<II", size, 0)
            case 18 | 25 | 28 | 29:  # RELEASE, FLUSH, READDIR, RELEASEDIR
                return b""
            case 26:  # INIT, of version 7.23
                return struct.pack("<IIIIHHI", 7, 23, 0, 0, 0, 0, 1 << 16) + bytes(40)
            case 35:  # CREATE
                return self._entry(self._make(body[16:].rstrip(b"\0"))) + bytes(16)
        raise OSError(errno.ENOSYS, "not served")

    def _find(self, name: bytes) -> int:
        if name not in self.names:
            raise OSError(errno.ENOENT, "not there")
        return self.names[name]

    def _make(self, name: bytes) -> int:
        node = self.names.setdefault(name, ROOT + 1 + len(self.names))
        self.contents[node] = bytearray()
        return node

    def _entry(self, node: int) -> bytes:
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o700 if node == ROOT else stat.S_IFREG | 0o700
        size = len(self.contents.get(node, b""))
        mode_and_owner = (mode, 1, self.uid, self.gid)
        return struct.pack("<QQ32x12xIIII4xI4x", node, size, *mode_and_owner, 4096)


def mounted(directory: str, uid: int, gid: int) -> int:
    """Mount, as root for the user; what the kernel asks is read from this descriptor."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=40000,user_id={uid},group_id={gid}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"served", os.fsencode(directory), b"fuse", NOSUID | NODEV, options) < 0:
        raise OSError(ctypes.get_errno(), "mount")
    return fd


def serve(fd: int, files: Files) -> None:
    """Answer until standard input ends."""
    while True:
        ready, _, _ = select.select([fd, 0], [], [])
        if 0 in ready:
            return
        question = os.read(fd, REQUEST_BYTES_MAX)
        _, what, number, node, *_ = REQUEST.unpack_from(question)
        if what in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET: no answer is wanted
            continue
        error, body = 0, b""
        try:
            body = files.answer(what, node, question[REQUEST.size :])
        except OSError as refused:
            error = refused.errno or errno.EIO
        os.write(fd, struct.pack("<IiQ", 16 + len(body), -error, number) + body)


@contextmanager
def served_files(directory: Path, uid: int, gid: int) -> Iterator[None]:
    """Have what the user serves be at `directory`, which is there."""
    words = [sys.executable, __file__, str(directory), str(uid), str(gid)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"served\n"
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
            process.stdin.close()


def main() -> None:
    """Mount and serve."""
    directory, uid, gid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fd = mounted(directory, uid, gid)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    sys.stdout.write("served\n")
    sys.stdout.flush()
    serve(fd, Files(uid, gid))
    os._exit(0)


if __name__ == "__main__":
    main()
