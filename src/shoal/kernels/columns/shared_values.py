"""Values that several kernels compute from one block, computed once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Shared:
    """Values computed from one block, cached for all kernels that read it.

    `form`: the steps applied to the block so far; blocks of one form are equal. `instances`: number of instances.
    """

    instances: int
    cache: dict[Any, Any] = field(default_factory=dict)
    form: tuple[str, ...] = ()

    def once(self, name: tuple[Any, ...], make: Callable[[], T]) -> T:
        """The cached value of a name; made for the first kernel that asks for it."""
        key = (self.form, *name)
        if key not in self.cache:
            self.cache[key] = make()
        found: T = self.cache[key]
        return found

    def once_of(self, column: Any, name: tuple[Any, ...], make: Callable[[], T]) -> T:
        """The cached value of a name for a column, in blocks of any form: most steps pass columns on as they are."""
        key = (id(column), *name)
        if key not in self.cache:
            self.cache[key] = column, make()  # the column stays alive, so that no other one gets its id
        found: T = self.cache[key][1]
        return found
