"""Every bad input gives one clear message and an exit code, never a traceback."""

from pathlib import Path

import pytest
from tests.cli.bad_inputs.table import PAGE, BadInput, bad_inputs, ending, rendered

TABLE = list(bad_inputs())


@pytest.mark.parametrize("bad", TABLE, ids=[bad.title for bad in TABLE])
def test_a_bad_input_gives_its_message_and_exit_code(bad: BadInput, tmp_path: Path) -> None:
    ended = ending(bad, tmp_path)
    assert (ended.exit, ended.message) == (bad.exit, bad.message)
    assert ended.exit not in (0, None)
    assert "Traceback" not in ended.printed


def test_the_table_has_at_least_60_inputs_of_different_titles() -> None:
    assert len({bad.title for bad in TABLE}) == len(TABLE) >= 60


def test_the_page_of_messages_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered()
