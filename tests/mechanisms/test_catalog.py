"""The catalog: one name each, and a hint for those who know another."""

import pytest

from shoal.errors import ConfigError
from shoal.mechanisms.catalog import DEFAULT, MECHANISMS, RENAMED, SUMMARIES, mechanism_named


def test_every_mechanism_has_one_name_and_one_line() -> None:
    assert {name: each.name for name, each in MECHANISMS.items()} == {name: name for name in SUMMARIES}
    assert all("\n" not in text for text in SUMMARIES.values())
    assert mechanism_named(None) is MECHANISMS[DEFAULT]


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_is_refused_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=f"mechanism '{old}' is now named {new}"):
        mechanism_named(old)


def test_a_name_that_nothing_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mechanism must be one of megaphone, all-at-once, .*, drop; got 'psychic'"):
        mechanism_named("psychic")


def test_a_mechanism_that_does_not_run_somewhere_is_refused_there() -> None:
    with pytest.raises(ConfigError, match="mechanism rhino does not run on the moon; there are megaphone"):
        mechanism_named("rhino", ("megaphone",), "the moon")
