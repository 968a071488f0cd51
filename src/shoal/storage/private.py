"""Private directories: made for their owner alone, and checked before anything in them is trusted.

Another user of the machine may create a directory under a predictable name first, or put a symbolic link there. What
Shoal then reads would be that user's. So a directory is used only if it is a real one, belongs to this user, and can
be written by nobody else.
"""

import contextlib
import os
import pwd
import stat
from pathlib import Path

from shoal.errors import ConfigError
from shoal.storage.directory import local_path

MODE = 0o700


def private_directory(path: Path, what: str) -> Path:
    """A directory of Shoal's own, created if it does not exist; others lose their access to an existing one.

    Raises `ConfigError` if another user could have changed its content; `what` names it in the message.
    """
    private_place(str(path), what)
    if stat.S_IMODE(path.stat().st_mode) & ~MODE:
        path.chmod(MODE)
    return path


def private_place(address: str, what: str) -> None:
    """The same for a directory that the user has named; permissions to read an existing one are kept.

    Addresses on remote filesystems are not checked: their permissions are those of the storage.
    """
    path = local_path(address)
    if path is None:
        return
    try:
        create(Path(path))
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be created: {(error.strerror or str(error)).lower()}") from error
    check_private(address, what)


def check_private(address: str, what: str) -> None:
    """Raise `ConfigError` if a local directory exists and others than this user can change it; creates nothing."""
    path = local_path(address)
    if path is not None and os.path.lexists(path) and (problem := fault(Path(path))):
        raise ConfigError(f"{what} {path} {problem}")


def create(path: Path) -> None:
    """Make a directory for this user alone, unless something of its name exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=MODE)


def fault(path: Path, *, or_root: bool = False) -> str:
    """Why the content of a directory cannot be trusted; empty if this user alone can change it.

    `or_root`: one that belongs to root will do, e.g. a cache that is installed with the package.
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"cannot be used: {(error.strerror or str(error)).lower()}"
    mine = os.geteuid()
    if stat.S_ISLNK(status.st_mode):
        return "must be a directory; it is a symbolic link; name the directory itself"
    if not stat.S_ISDIR(status.st_mode):
        return "must be a directory; it is a file"
    if status.st_uid not in ((mine, 0) if or_root else (mine,)):
        return f"must belong to {_user(mine)}; it belongs to {_user(status.st_uid)}, who could change its content"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        return f"must be writable by its owner only; its mode is {mode:04o}; if you trust its content, chmod go-w it"
    return ""


def _user(uid: int) -> str:
    """A user by name and number."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"user {uid}"
