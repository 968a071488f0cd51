"""Functions and classes that other processes find by name."""


def triple(n: int) -> int:
    """Three times a number."""
    return 3 * n


class Outer:
    """A class with another one inside."""

    class Inner:
        """The one inside."""
