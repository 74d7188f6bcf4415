"""Access lists of files: what one user may do with a file that stays its owner's."""

from __future__ import annotations

import errno
import os
import struct

READ, WRITE, EXECUTE = 4, 2, 1
_ACCESS = "system.posix_acl_access"
_VERSION = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF


def give_access(fd: int, uid: int, rights: int) -> bool:
    """Give the user `uid` these rights to an open file, its owner READ and WRITE, others none.

    Returns False if the file system has no access lists. Raises OSError.
    """
    entries = (
        (_OWNER, READ | WRITE, _NO_ID),
        (_USER, rights, uid),
        (_GROUP, 0, _NO_ID),
        (_MASK, rights, _NO_ID),
        (_OTHERS, 0, _NO_ID),
    )
    content = _VERSION.pack(2) + b"".join(_ENTRY.pack(*each) for each in entries)
    try:
        os.setxattr(fd, _ACCESS, content)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOSYS):
            raise
        return False
    return True
