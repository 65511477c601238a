"""Files written as a whole or not at all: what reads them never sees half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path


def put(path: Path, text: str) -> None:
    """Write a file beside its place, and put it there when it is complete.

    A file that was there keeps its mode; a link stays one, and what it leads to is written.

    Raises:
        OSError: If that cannot be done, or if there is something else than a file.
    """
    place = Path(os.path.realpath(path))
    mode = _mode(place)
    beside = place.with_name(f".{place.name[:80]}.{secrets.token_hex(8)}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as stream:
            if mode is not None:
                beside.chmod(mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _mode(place: Path) -> int | None:
    """The mode of the file that is there, None for none."""
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is no regular file")
    return stat.S_IMODE(mode)
