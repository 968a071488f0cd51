"""Failures: from the pages Spark prints to the one sentence that Shoal raised in some other process."""

import re

from shoal import errors
from shoal.errors import RunError, ShoalError

_OURS = re.compile(r"shoal\.errors\.(\w+): (.+)")
_LONGEST = 600


def translated(error: Exception) -> Exception:
    """Shoal's own error, wherever in Spark's text it hides; other failures as a `RunError` with their gist."""
    if isinstance(error, ShoalError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, RunError)
        return kind(message.strip())
    return RunError(f"the Spark job failed: {_gist(text)}")


def _gist(text: str) -> str:
    """The last line that names an exception, or the beginning of the text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"^[\w.]+(Error|Exception|Interrupt)\b.*: ", line)]
    return (named[-1] if named else " ".join(lines))[:_LONGEST]
