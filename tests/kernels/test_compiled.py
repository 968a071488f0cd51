"""Compiled loops: their machine code is cached on disk, and processes do not mix up their files."""

import subprocess
import sys
from pathlib import Path

LOOP = """
import sys
import numpy as np
from shoal.kernels.compiled import compiled


@compiled
def total(values):
    found = values[0]
    for i in range(1, values.size):
        found += values[i]
    return found


if __name__ == "__main__":
    total(np.array([1, 2, 3], sys.argv[1]))
    print(len(total.stats.cache_hits))
"""


def run(path: Path, type_: str) -> int:
    done = subprocess.run([sys.executable, path, type_], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_two_processes_never_write_machine_code_under_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    assert run(path, "int64") == 0
    (index,) = (tmp_path / "__pycache__").glob("*.nbi")
    index.unlink()  # as for a process that has read the index before the other wrote it
    assert run(path, "float64") == 0
    assert len(list((tmp_path / "__pycache__").glob("*.nbc"))) == 2


def test_machine_code_is_cached_for_later_processes(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    assert [run(path, "int64"), run(path, "int64")] == [0, 1]
