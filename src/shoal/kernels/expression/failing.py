"""What failed: the smallest part of some rows on which a computation still raises, and values as short texts."""

from collections.abc import Callable
from typing import Any

LONGEST = 300
"""Characters of a value or a message that an error quotes."""


def failing_range(attempt: Callable[[int, int], object], length: int) -> tuple[int, int]:
    """The rows `start .. stop - 1` of a computation over `length` rows that has failed; one row if one fails alone.

    `attempt` repeats the computation on a range of rows. The range is halved as long as one half still fails, so that a
    row among a million is found after some forty attempts. If rows fail only together, or not again, the range holds
    more than one.

    >>> failing_range(lambda start, stop: [1 / row for row in range(start - 700, stop - 700)], 1000)
    (700, 701)
    """
    start, stop = 0, length
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fails(attempt, start, middle):
            stop = middle
        elif _fails(attempt, middle, stop):
            start = middle
        else:
            break
    return start, stop


def _fails(attempt: Callable[[int, int], object], start: int, stop: int) -> bool:
    try:
        attempt(start, stop)
    except (Exception, SystemExit):  # noqa: BLE001  (any failure counts; the first one is reported)
        return True
    return False


def raised(error: BaseException) -> str:
    """An exception of user code on one line: its type and its message.

    >>> raised(KeyError("gear"))
    "KeyError: 'gear'"
    """
    text = _printable(" ".join(_text(error, str).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any) -> str:
    """A value as a short text on one line."""
    return _printable(_text(value, repr))


def _text(value: Any, form: Callable[[Any], str]) -> str:
    """The text of a value; a value of the user's own may fail to give one."""
    try:
        return form(value)
    except Exception:  # noqa: BLE001  (an error must be reported even if its text cannot be)
        return f"a {type(value).__name__}"


def _printable(text: str) -> str:
    plain = text.replace("\n", "\\n").encode("utf-8", "backslashreplace").decode()
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."
