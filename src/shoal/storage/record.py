"""Records: messages behind a checksum, so that damage is always detected."""

import zlib
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.errors import CheckpointError, FormatError, MessageError
from shoal.storage.codec import Codec

T = TypeVar("T")


def sealed(text: bytes) -> bytes:
    r"""Bytes with their checksum in front.

    >>> sealed(b'{"n":1}')
    b'd44b3b7e\n{"n":1}'
    """
    return b"%08x\n%s" % (zlib.crc32(text), text)


def unsealed(content: bytes) -> bytes:
    """The bytes behind a checksum; raises `MessageError` if they do not match it."""
    crc, _, text = content.partition(b"\n")
    if crc != b"%08x" % zlib.crc32(text):
        raise MessageError("is damaged: its checksum does not match")
    return text


@dataclass(frozen=True)
class Record(Generic[T]):
    """The format of files with values of some types.

    `subject`: the name of such a file in errors. `hint`: advice for a damaged one.
    """

    codec: Codec[T]
    subject: str = "checkpoint file"
    hint: str = "restore it from a copy, or start again with another checkpoint directory"

    def encode(self, value: T) -> bytes:
        """The content of a file with a value."""
        return sealed(self.codec.encode(value))

    def decode(self, content: bytes, where: str) -> T:
        """The value of a file's content; errors name `where`, the address of the file."""
        try:
            return self.codec.decode(unsealed(content))
        except FormatError as error:
            raise CheckpointError(f"{self.subject} {where} {error}") from error
        except MessageError as error:
            raise CheckpointError(f"{self.subject} {where} {error}; {self.hint}") from error
