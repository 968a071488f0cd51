"""Owners of directories in shared memory: copies of a run that was killed are deleted when the next run starts.

A driver leaves its process id, and when that process began, in the directory of its checkpoint. A process id alone
would not do: the system gives it out again.
"""

import shutil
from pathlib import Path

import psutil

from shoal.runtimes.spark.state.store import hot_directory, hot_root, hot_tier

OWNER = "owner"


def claim_shared_memory(checkpoint: str) -> None:
    """Make this process the owner of a checkpoint's hot copies, and delete those whose owners are dead."""
    tier = hot_tier(checkpoint)
    if tier is None:
        return
    mine = Path(hot_directory(checkpoint))
    for directory in hot_root().iterdir():
        if directory != mine and is_abandoned(directory):
            shutil.rmtree(directory, ignore_errors=True)
    process = psutil.Process()
    tier.write(OWNER, f"{process.pid} {process.create_time()}".encode())


def is_abandoned(directory: Path) -> bool:
    """Whether the process that owned a directory is dead; False if nobody is known to have owned it."""
    try:
        pid, began = (directory / OWNER).read_text(encoding="utf-8").split()
        process = psutil.Process(int(pid))
        return process.create_time() != float(began) or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, OSError, ValueError):
        return False
