"""The secret that coordinator and nodes share: in a file or in the environment, never on a command line."""

import os
import secrets
import stat
from pathlib import Path

from shoal.errors import ConfigError, reason_of

TOKEN = "SHOAL_EXPERIMENT_TOKEN"
"""The variable with the token."""
TOKEN_FILE = "SHOAL_EXPERIMENT_TOKEN_FILE"
"""The variable with the name of a file that has the token."""
LEAST_CHARACTERS = 16


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_hex(32)


def known_token(file: str | None = None) -> str:
    """The token of a file, or of the environment."""
    file = file or os.environ.get(TOKEN_FILE)
    token = _read(Path(file)) if file else os.environ.get(TOKEN, "")
    if not token:
        raise ConfigError(f"nodes on other hosts need a token: give --token-file, or set {TOKEN}")
    if len(token) < LEAST_CHARACTERS:
        raise ConfigError(f"a token must have at least {LEAST_CHARACTERS} characters; got {len(token)}")
    return token


def _read(path: Path) -> str:
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"token file {path} must be readable by its owner only; run: chmod 600 {path}")
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"token file {path} cannot be read: {reason_of(error)}") from error
