"""A process that dies at a file operation of one's choice."""

import random
from collections.abc import Callable, Iterable
from itertools import count

import pytest

from shoal.storage.directory import Directory


class Crash(BaseException):
    """Not an error anybody catches: the process is no more."""


def crash_at(operation: int, patched: pytest.MonkeyPatch) -> Callable[[], int]:
    """Crash before the n-th writing or deleting of a file; returns a function that says how many there were."""
    numbers, reached = count(1), [0]
    write, delete = Directory.write, Directory.delete

    def doomed() -> None:
        reached[0] = next(numbers)
        if reached[0] == operation:
            raise Crash

    def writing(self: Directory, name: str, content: bytes) -> None:
        doomed()
        write(self, name, content)

    def deleting(self: Directory, names: Iterable[str]) -> None:
        for name in names:
            doomed()
            delete(self, [name])

    patched.setattr(Directory, "write", writing)
    patched.setattr(Directory, "delete", deleting)
    return lambda: reached[0]


def crashes(go: Callable[[], object], operation: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a run ends by a crash at its n-th file operation; not if it has fewer."""
    with monkeypatch.context() as patched:
        crash_at(operation, patched)
        try:
            go()
        except Crash:
            return True
    return False


def through_crashes(run: Callable[[], object], draw: random.Random, patched: pytest.MonkeyPatch) -> None:
    """Crash at random moments until one attempt gets through."""
    while True:
        with patched.context() as context:
            crash_at(draw.randint(1, 70), context)
            try:
                run()
            except Crash:
                continue
            return
