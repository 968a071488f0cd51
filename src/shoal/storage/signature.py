"""Signatures: proof that bytes on a disk come from this user, by a key that only this user can read.

The key is 32 random bytes in `$SHOAL_KEY_FILE`, or in `shoal/key` of the user's state directory. It is made when
something is signed for the first time. Whoever holds the key can sign code that this user's runs will execute.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from shoal.errors import ConfigError
from shoal.storage.private import create, fault

VARIABLE = "SHOAL_KEY_FILE"
KEY_BYTES = 32
_KIND = "hmac-sha256:"


def key_file() -> Path:
    """Where the key is: `$SHOAL_KEY_FILE`, or `shoal/key` below `$XDG_STATE_HOME` or `~/.local/state`."""
    if own := os.environ.get(VARIABLE):
        return Path(own).absolute()
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state).absolute() / "shoal" / "key"
    try:
        return Path.home() / ".local" / "state" / "shoal" / "key"
    except RuntimeError as error:
        raise ConfigError(f"there is no home directory to keep a key in; name a file by {VARIABLE}") from error


def sign(content: bytes) -> str:
    """The signature of some bytes by the user's key, which is made if there is none."""
    path = key_file()
    if not path.exists():
        _make(path)
    return _signature(_read(path), content)


def is_signed(content: bytes, signature: str) -> bool:
    """Whether a signature is that of the user's key for exactly these bytes."""
    path = key_file()
    if not signature.startswith(_KIND) or not signature.isascii() or not path.exists():
        return False
    return hmac.compare_digest(_signature(_read(path), content), signature)


def _signature(key: bytes, content: bytes) -> str:
    return _KIND + hmac.new(key, content, hashlib.sha256).hexdigest()


def _make(path: Path) -> None:
    """Write a new key. A link makes it appear as a whole, so that of two processes one wins and both read the same."""
    try:
        create(path.parent)
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES).hex().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            unfinished.unlink()
    except OSError as error:
        raise _unusable(path, f"cannot be made: {(error.strerror or str(error)).lower()}") from error


def _read(path: Path) -> bytes:
    """The key, if nobody else can read or replace it."""
    if problem := fault(path.parent, or_root=True):
        raise ConfigError(f"directory {path.parent} of the key for signatures {problem}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "must be a file")
        if status.st_uid != os.geteuid():
            raise _unusable(path, f"must belong to user {os.geteuid()}; it belongs to user {status.st_uid}")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise _unusable(path, f"must be readable by its owner only; its mode is {mode:04o}; run chmod 600 on it")
        text = file.read(4 * KEY_BYTES).strip()
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) < KEY_BYTES:
        raise _unusable(path, f"must hold at least {2 * KEY_BYTES} hexadecimal digits; restore it, or remove it")
    return key


def _unusable(path: Path, problem: str) -> ConfigError:
    return ConfigError(f"key for signatures {path} {problem}; {VARIABLE} names another file")
