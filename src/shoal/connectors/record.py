"""Records: plain data as JSON behind a checksum, so that a damaged file is never taken for a whole one."""

import json
import zlib
from typing import Any


def encode(data: Any) -> bytes:
    r"""The bytes of a record.

    >>> encode({"n": 1})
    b'd44b3b7e\n{"n":1}'
    """
    text = json.dumps(data, separators=(",", ":")).encode()
    return b"%08x\n%s" % (zlib.crc32(text), text)


def decode(content: bytes) -> Any:
    """The data of a record; `ValueError` where it is not as it was written."""
    crc, _, text = content.partition(b"\n")
    if crc != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum does not match")
    return json.loads(text)
