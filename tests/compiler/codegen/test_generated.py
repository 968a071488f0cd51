"""Generated code is kept on disk, and nothing that can happen to it there does any harm."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.compiler.codegen import generated
from shoal.compiler.codegen.fused import Chain, fused, prepare
from shoal.compiler.codegen.generated import Code, Loaded, cache_directory
from shoal.compiler.steps import DispatchByGroup, Filter
from shoal.kernels.columns.block import Block
from shoal.model.query.expression import col

COMPILING = "compiling 1 chain ..."
BLOCK = Block({"i": np.arange(-5, 5)}, 10)


def chain() -> Chain:
    made = fused([Filter(col("i") // 3 != 1), DispatchByGroup(("i",), 4)], {"i": "int64"})
    assert made is not None
    return made


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(generated, "_LOADED", Loaded())
    return tmp_path / "kept"


def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said when the chain is prepared as in a new process; it must work."""
    monkeypatch.setattr(generated, "_LOADED", Loaded())
    said: list[str] = []
    ready = chain()
    prepare([ready], said.append)
    assert ready.apply(BLOCK).columns["i"].tolist() == [-5, -4, -3, -2, -1, 0, 1, 2]
    assert ready.fused[0]._run is not None
    return said


def test_only_what_is_not_kept_is_compiled(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepared(monkeypatch) == [COMPILING]
    assert prepared(monkeypatch) == []


SCRIPT = """
from tests.compiler.codegen.test_generated import BLOCK, chain
from shoal.compiler.codegen.fused import prepare
said = []
ready = chain()
prepare([ready], said.append)
stats = ready.fused[0]._run._function.stats
print(said, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), ready.apply(BLOCK).length)
"""


def test_another_process_loads_what_one_has_compiled(directory: Path) -> None:
    def run() -> str:
        command = [sys.executable, "-c", SCRIPT]
        root = Path(__file__).parents[3]
        done = subprocess.run(command, cwd=root, env=dict(os.environ), capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run() == f"['{COMPILING}'] 0 1 8"
    assert run() == "[] 1 0 8"


def test_two_builds_of_a_version_of_python_share_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Code("", "none()").name
    monkeypatch.setattr(sys, "abiflags", f"{sys.abiflags}t")
    assert Code("", "none()").name != before


@pytest.mark.parametrize("kind", ["py", "nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"\x80\x05garbage", None])
def test_a_damaged_file_is_made_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: bytes | None
) -> None:
    prepared(monkeypatch)
    (file,) = directory.rglob(f"chain_*.{kind}")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    prepared(monkeypatch)
    assert prepared(monkeypatch) == []
    assert len(file.read_bytes()) == pytest.approx(len(whole), abs=64)


def test_without_a_directory_to_write_to_nothing_is_kept(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.write_text("a file")
    assert prepared(monkeypatch) == [COMPILING]
    assert prepared(monkeypatch) == [COMPILING]
    assert directory.read_text() == "a file"


def test_the_oldest_go_once_there_are_many(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "MOST_KEPT", 1)
    prepared(monkeypatch)
    other = fused([Filter(col("i") > 3)], {"i": "int64"})
    assert other is not None
    prepare([other])
    assert [file.stem for file in directory.glob("chain_*")] == [other.fused[0].loop.code.name]
    assert len(list(directory.rglob("*.nbc"))) == 1


@pytest.mark.usefixtures("directory")
def test_functions_in_memory_are_bounded_and_the_ones_not_wanted_for_longest_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = Loaded(2)
    monkeypatch.setattr(generated, "_LOADED", loaded)
    codes = [generated.Code(f"def chain(i):\n    return i + {n}\n", "int64(int64)") for n in range(4)]
    first, second, third = (generated.function_of(code) for code in codes[:3])
    assert [loaded.get(code.name) for code in codes] == [None, second, third, None]
    assert codes[0].name not in sys.modules
    assert first(1) == 1  # a caller that has it can still use it
    assert generated.function_of(codes[1]) is second
    generated.function_of(codes[3])
    assert loaded.get(codes[2].name) is None
    assert loaded.get(codes[1].name) is second
    assert generated.function_of(codes[0])(1) == 1


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        pytest.param({"SHOAL_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/x"}, "/own", id="Shoal's own"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/shoal", id="the desktop's"),
        pytest.param({"HOME": "/h"}, "/h/.cache/shoal", id="the home directory's"),
    ],
)
def test_where_code_is_kept(monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], wanted: str) -> None:
    for name in ("SHOAL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_directory() == Path(wanted)
