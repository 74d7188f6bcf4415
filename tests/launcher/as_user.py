"""Runs a launcher as an ordinary user, with an interpreter that this user may not be able to read.

Everything is imported before the drop, as a daemon started by root does.
"""

import ctypes
import os
import sys

import iriai.launcher.__main__ as launcher
from iriai.launcher.spawn import spawn

PR_SET_DUMPABLE = 4


def main() -> int:
    uid, gid, helper, *arguments = sys.argv[1:]
    spawn.HELPER = helper
    if os.geteuid() == 0:
        os.setgroups([int(gid)])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    return launcher.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
