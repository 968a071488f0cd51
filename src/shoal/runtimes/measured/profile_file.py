"""Profiles in files, as `shoal profile --output` writes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, reason_of


def read_profile(file: str) -> Mapping[str, Any]:
    """The profile in a file."""
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read profile {file}: {reason_of(error)}") from error
    except ValueError as error:
        raise ConfigError(f"profile {file} must be JSON as shoal profile writes it: {error}") from error
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"profile {file} must be a JSON object as shoal profile writes it; got {type(found).__name__}"
        )
    return found
