"""The codec: frozen dataclasses as JSON, for everything that one process writes and another reads.

A message is one JSON object: its format number, its kind, then the fields of the dataclass. It can be read with `cat`,
and no code runs when it is decoded.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Load:
...     worker: int
...     bytes: tuple[int, ...]
>>> codec = Codec([Load], format=2)
>>> codec.encode(Load(3, (10, 20)))
b'{"format":2,"kind":"load","worker":3,"bytes":[10,20]}'
>>> codec.decode(b'{"format":2,"kind":"load","worker":3,"bytes":[10,"x"]}')
Traceback (most recent call last):
shoal.errors.MessageError: is damaged: field bytes[1] must be int; got str
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from shoal.errors import FormatError, MessageError

T = TypeVar("T")

_MISMATCH = re.compile(r"Expected `(.+?)`(.*?)(?:, got (.+))?")
_MISSING = re.compile(r"Object missing required field `(.+)`")


class _Header(msgspec.Struct):
    """The fields in front of a message; one without a format number has format 1."""

    format: int = 1
    kind: str = ""


class Codec(Generic[T]):
    """Encodes and decodes values of one type, or of several that differ in kind.

    The kind is the type's name in lower case, or its `KIND` if the type was renamed after files had been written.
    `format` must change whenever bytes of an earlier version would be misunderstood; every other number is refused. A
    field with a default may be missing, and unknown fields are ignored, so a field with a default can be added without
    a new number.
    """

    def __init__(self, types: Sequence[type[T]], *, format: int) -> None:  # noqa: A002  (the word of the files)
        """Prepare encoders and decoders for some dataclasses."""
        self.format = format
        self.kinds = {kind_of(type_): type_ for type_ in types}
        self._kind_of = {type_: kind for kind, type_ in self.kinds.items()}
        self._header = msgspec.json.Decoder(_Header)
        self._encoder = msgspec.json.Encoder()
        self._decoders = {kind: msgspec.json.Decoder(type_) for kind, type_ in self.kinds.items()}
        self._starts = {kind: b'{"format":%d,"kind":"%s"' % (format, kind.encode()) for kind in self.kinds}
        self._inexact = {kind for kind, type_ in self.kinds.items() if _holds_floats(inspect.type_info(type_))}

    def encode(self, value: T) -> bytes:
        """The bytes of a value, on one line."""
        kind = self._kind_of[type(value)]
        fields = self._fields(kind, value)
        return self._starts[kind] + (b"," if len(fields) > 2 else b"") + fields[1:]

    def decode(self, content: bytes) -> T:
        """The value of some bytes.

        Raises `FormatError` for another format and `MessageError` for all other errors. Callers put the name of the
        file or of the sender in front of the text: "is damaged: field …".
        """
        for kind, start in self._starts.items():
            if content.startswith(start):
                return _parsed(self._decoders[kind], content)
        header = _parsed(self._header, content)
        if header.format != self.format:
            raise FormatError(f"has format {header.format}; this version reads format {self.format}")
        if header.kind not in self.kinds:
            got = repr(header.kind) if header.kind else "none"
            raise MessageError(f"is damaged: field kind must be {', '.join(self.kinds)}; got {got}")
        return _parsed(self._decoders[header.kind], content)

    def _fields(self, kind: str, value: T) -> bytes:
        """The fields as JSON, exactly.

        msgspec writes non-finite floats as null and rejects text with half a surrogate pair. Python's own module
        writes both, so it is used if either may be present.
        """
        try:
            fields = self._encoder.encode(value)
        except UnicodeEncodeError:
            return _written(value)
        return _written(value) if kind in self._inexact and b"null" in fields else fields


def kind_of(type_: type) -> str:
    """The kind of a type's messages.

    >>> kind_of(Codec)
    'codec'
    """
    return getattr(type_, "KIND", None) or re.sub(r"(?<!^)(?=[A-Z])", "-", type_.__name__).lower()


def plain(value: object) -> dict[str, Any]:
    """A message's kind and fields as plain data, for output that is never decoded."""
    return {"kind": kind_of(type(value)), **msgspec.to_builtins(value, str_keys=True)}


def _written(value: object) -> bytes:
    return json.dumps(msgspec.to_builtins(value, str_keys=True), separators=(",", ":")).encode()


def _parsed(decoder: "msgspec.json.Decoder[T]", content: bytes) -> T:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise MessageError(f"is damaged: {_fault(str(error))}") from error
    except (ValueError, RecursionError):
        return _parsed_exactly(decoder.type, content)


def _parsed_exactly(type_: type[T], content: bytes) -> T:
    """Decode what msgspec rejects: Python's module accepts `Infinity`, `NaN` and half surrogate pairs."""
    try:
        return msgspec.convert(json.loads(content), type_, str_keys=True)
    except msgspec.ValidationError as error:
        raise MessageError(f"is damaged: {_fault(str(error))}") from error
    except (ValueError, RecursionError) as error:
        raise MessageError(f"is damaged: it must be a JSON object; {_lowercase(str(error))}") from error


def _fault(text: str) -> str:
    """The text of a msgspec error in Shoal's style.

    >>> _fault("Expected `int`, got `str` - at `$.states[0].bytes`")
    'field states[0].bytes must be int; got str'
    >>> _fault("Object missing required field `epoch`")
    'field epoch is missing'
    """
    problem, _, where = text.partition(" - at ")
    path = where.replace("`", "").replace("key in ", "keys of ").replace("$.", "").removeprefix("$")
    if found := _MISSING.fullmatch(problem):
        return f"field {path and path + '.'}{found[1]} is missing"
    subject = f"field {path}" if path else "it"
    if found := _MISMATCH.fullmatch(problem):
        got = f"; got {found[3].replace('`', '')}" if found[3] else ""
        return f"{subject} must be {found[1].replace('`', '')}{found[2].replace('`', '')}{got}"
    return f"{subject}: {_lowercase(problem)}"


def _lowercase(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _holds_floats(info: Any) -> bool:
    """Whether a value of a type may hold a float somewhere."""
    if isinstance(info, inspect.FloatType | inspect.AnyType):
        return True
    if isinstance(info, tuple):
        return any(_holds_floats(part) for part in info)
    if isinstance(info, msgspec.Struct):
        return any(_holds_floats(getattr(info, name)) for name in info.__struct_fields__)
    return False
