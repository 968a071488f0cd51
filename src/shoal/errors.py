"""Every error Shoal raises: each is a `ShoalError` and also the builtin a caller would expect.

A message says the subject, the place, what was expected and what came, then a hint; lowercase, no full stop.
"""


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


class MessageError(ShoalError, ValueError):
    """Bytes that are not the message or record they should be; the text follows the name of the file or sender."""


class FormatError(MessageError):
    """A message or record of a format that this version does not read."""


class RunError(ShoalError, RuntimeError):
    """A run that failed for a reason Shoal could not turn into one of the errors above."""
