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


def give_access(fd: int, uid: int, rights: int) -> None:
    """Have the user `uid` do what `rights` say with an open file, its owner read and write.

    Nobody else may do anything. Raises OSError; `has_no_lists` says whether there are none.
    """
    entries = (
        (_OWNER, READ | WRITE, _NO_ID),
        (_USER, rights, uid),
        (_GROUP, 0, _NO_ID),
        (_MASK, rights, _NO_ID),
        (_OTHERS, 0, _NO_ID),
    )
    content = _VERSION.pack(2) + b"".join(_ENTRY.pack(*each) for each in entries)
    os.setxattr(fd, _ACCESS, content)


def has_no_lists(error: OSError) -> bool:
    """Whether `error` says that the file system has no access lists."""
    return error.errno in (errno.ENOTSUP, errno.ENOSYS)
