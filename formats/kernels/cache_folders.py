"""Folders of machine code that nobody else can have written.

The index of numba's cache is a pickle: who writes it runs code in every process that loads it. A folder is used only
if it belongs to this user or to root, is not a link, and no other user may write to it or put another in its place.
Neither it nor a folder above it is writable for others, but for those where only owners may rename (sticky, as
``/tmp`` is).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

ROOT = 0


def reason_against(folder: Path) -> str | None:
    """Return why others could have written to a folder, or could replace it; None if they could not.

    A folder that does not exist is judged by those above it.
    """
    if not hasattr(os, "geteuid"):
        return None
    path = Path(os.path.abspath(folder))
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    try:
        return _against(path, alone=path == Path(os.path.abspath(folder))) or next(
            filter(None, (_against(above) for above in (*path.parents, *Path(os.path.realpath(path)).parents))), None
        )
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"


def reason_against_file(file: Path) -> str | None:
    """Return why others could have written a file; None if they could not, or if there is none."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{file} cannot be looked at: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return f"{file} is not a file"
    return _of_others(file, status)


def _against(path: Path, *, alone: bool = False) -> str | None:
    """Return why a folder is not used; ``alone``: others must not even create files in it."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        # Who may replace a link is a matter of its folder; where it leads is looked at, too.
        return f"{path} is a link" if alone else _of_another_owner(path, status)
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a folder"
    if status.st_mode & stat.S_ISVTX and not alone:
        return _of_another_owner(path, status)
    return _of_others(path, status)


def _of_others(path: Path, status: os.stat_result) -> str | None:
    owner = _of_another_owner(path, status)
    if owner is not None:
        return owner
    by_group = status.st_mode & stat.S_IWGRP and not _is_of_one_user(status.st_gid, status.st_uid)
    return f"others may write to {path}" if by_group or status.st_mode & stat.S_IWOTH else None


def _of_another_owner(path: Path, status: os.stat_result) -> str | None:
    return None if status.st_uid in (ROOT, os.geteuid()) else f"{path} belongs to another user"


def _is_of_one_user(group: int, user: int) -> bool:
    """Return whether a group is the one that a system makes for each user, with nobody else in it; or that of root."""
    import grp
    import pwd

    if group == ROOT and user == ROOT:
        return True
    try:
        name, known = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return known.gr_name == name and set(known.gr_mem) <= {name}
