"""Whether a directory can be written, found out before anything depends on it."""

import os
from pathlib import Path

from shoal.errors import ConfigError
from shoal.storage.directory import local_path


def check_writable(address: str, subject: str) -> None:
    """Reject a local directory that is a file, lies below one, or is read-only; other file systems are not asked."""
    path = local_path(address)
    if path is None:
        return
    whole = Path(path).absolute()
    nearest = next(each for each in (whole, *whole.parents) if each.exists())
    if not nearest.is_dir():
        raise ConfigError(f"{subject} {address} must be a directory, and {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{subject} {address} cannot be written: {nearest} is read-only for this user")
