"""Values of settings from the texts in which the command line gives them."""

from typing import Any

from shoal.errors import ConfigError


def setting_value(name: str, text: str, type_: Any) -> Any:
    """The value of a setting of a type: bool, int, float or str.

    >>> setting_value("block_rows", "4096", int), setting_value("chained", "true", bool)
    (4096, True)
    """
    if type_ is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false; got {text!r}")
        return text == "true"
    if type_ not in (int, float):
        return text
    try:
        return type_(text)
    except ValueError as error:
        raise ConfigError(f"{name} must be a {'whole ' if type_ is int else ''}number; got {text!r}") from error
