"""Code in stored graphs: signed by who writes it, and verified before a process that reads it may load it.

A graph on disk holds the user's functions as texts, and loading one runs it (see `shoal.model.query.code`). Whoever can
write the disk could put other functions there. So a stored graph with code has a signature by the user's key. Tasks on
other machines do not have the key: there the driver, which has verified the graph, says by the job's properties what
code they will find.
"""

import hashlib
import json
from collections.abc import Iterable
from hmac import compare_digest

from shoal.errors import ConfigError, SignatureError
from shoal.model.query.code import codes_in, shown, trust, untrusted
from shoal.model.query.graph import Operator
from shoal.storage.signature import is_signed, key_file, sign

_PURPOSE = b"shoal: functions of a graph\n"


def codes_of(operators: Iterable[Operator]) -> list[str]:
    """The texts of all functions of some operators, each once, sorted."""
    return sorted(codes_in([operator.parameters for operator in operators]))


def code_digest(operators: Iterable[Operator]) -> str:
    """What the driver tells its tasks about the code of a graph; empty without code."""
    codes = codes_of(operators)
    return hashlib.sha256(_content(codes)).hexdigest() if codes else ""


def signature_of(operators: Iterable[Operator]) -> str:
    """The signature of the code of a graph; empty without code. Only trusted code is signed."""
    codes = codes_of(operators)
    if found := untrusted(codes):
        raise SignatureError(f"{shown(found[0])} was read from a file without a signature; it is not signed")
    return sign(_content(codes)) if codes else ""


def trust_signed(operators: Iterable[Operator], signature: str, told: str = "") -> None:
    """Trust the code of a graph that was read, or raise `SignatureError`.

    It must be code that this process trusts already, or that its driver has told it about, or that is signed.
    """
    codes = codes_of(operators)
    found = untrusted(codes)
    if not found:
        return
    content = _content(codes)
    if not compare_digest(told, hashlib.sha256(content).hexdigest()) and not is_signed(content, signature):
        problem = "has a signature by another key, or is not what was signed" if signature else "has no signature"
        raise SignatureError(
            f"{shown(found[0])} {problem}, so it is not run; expected one by {_key()}; use that user and key, "
            "or accept the functions of a checkpoint once by --allow-pickle"
        )
    trust(codes)


def _key() -> str:
    try:
        return f"the key {key_file()}"
    except ConfigError:
        return "a key of this user"


def _content(codes: list[str]) -> bytes:
    return _PURPOSE + json.dumps(codes).encode()
