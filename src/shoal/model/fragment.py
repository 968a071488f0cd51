"""Fragments: the smallest parts of an instance's state that can move on their own."""

from dataclasses import dataclass
from typing import NewType

FragmentId = NewType("FragmentId", str)
"""Name of a fragment, unique within one kernel's state."""


@dataclass(frozen=True)
class Fragment:
    """What a mechanism knows of a fragment: whose it is, how large, how urgent, how useful."""

    id: FragmentId
    instance: int
    state_bytes: int
    deadline_us: int | None
    utility: float
    essential: bool = True
