"""Every error Shoal raises: each is a `ShoalError` and also the builtin a caller would expect.

A message says the subject, the place, what was expected and what came, then a hint; lowercase, no full stop.
"""

from collections import abc
from difflib import get_close_matches


class ShoalError(Exception):
    """Anything Shoal refuses or fails at, with a message meant for a person."""


class GraphError(ShoalError, ValueError):
    """A query or graph that cannot exist: unknown column, wrong type, duplicate name, bad window."""


class SqlError(ShoalError, ValueError):
    """A text that is no SQL, or SQL that asks for what Shoal does not do; quotes the clause it is about."""


class SchemaError(ShoalError, ValueError):
    """A stream schema that is wrong in itself, or data that does not have the declared columns."""


class ConfigError(ShoalError, ValueError):
    """An option, setting or argument with a value that makes no sense."""


class BindingError(ShoalError, ValueError):
    """A binding that names an unknown instance or a worker that does not exist."""


class MechanismError(ShoalError, ValueError):
    """A plan of moves that cannot be carried out: steps out of order, an instance lost or moved twice."""


class PartitioningError(ShoalError, ValueError):
    """A partitioning that cannot be: an unknown instance, more parts than slots, an operator without keys."""


class SourceError(ShoalError, RuntimeError):
    """Input that cannot be read: a missing directory, a truncated file, a file without a declared column."""


class CheckpointError(ShoalError, RuntimeError):
    """A checkpoint that cannot be used: a damaged manifest or state file, or one of another job."""


class SignatureError(CheckpointError):
    """Code in a checkpoint or in a command that nobody has vouched for: it is not signed with the user's key."""


class MessageError(ShoalError, ValueError):
    """Bytes that are not the message or record they should be; the text follows the name of the file or sender."""


class FormatError(MessageError):
    """A message or record of a format that this version does not read."""


class RunError(ShoalError, RuntimeError):
    """A run that failed for a reason Shoal could not turn into one of the errors above."""


class FunctionError(RunError):
    """A function or an aggregate of the user that raised, or gave what it must not give.

    `sample` shows what it was called with; empty if that is unknown.
    """

    def __init__(self, message: str, sample: str = "") -> None:
        """Say what happened."""
        super().__init__(message)
        self.sample = sample


class QueryError(RunError):
    """Queries that cannot go on, since something in them failed on their input.

    `queries`: all that need the failing part. `reason`: what failed, and how. `row`: a row that it fails on, as text;
    empty if there is none.
    """

    def __init__(self, message: str, queries: tuple[str, ...] = (), reason: str = "", row: str = "") -> None:
        """Say what happened; the message names queries, reason and row."""
        super().__init__(message)
        self.queries, self.reason, self.row = queries, reason, row


def did_you_mean(name: str, known: abc.Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that it may have been meant for, if there is one.

    >>> did_you_mean("sped", ["ts", "speed"]), did_you_mean("x", ["ts", "speed"])
    ("; did you mean 'speed'?", '')
    """
    by_case = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_case, n=1)
    return f"; did you mean {by_case[found[0]]!r}?" if found else ""


def reason_of(error: OSError) -> str:
    """Why an operation of the system failed, for the end of a message.

    >>> reason_of(FileExistsError(17, "File exists", "/data"))
    'file exists'
    """
    return (error.strerror or str(error)).lower()
