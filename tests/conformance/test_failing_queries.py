"""Queries that fail, on every runtime: named with the function and the row."""

from collections.abc import Callable

import pytest
from tests.conformance.failing import FAILING, cars, plain, steady

from shoal.errors import QueryError
from shoal.model.query.graph import Query
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import Run, start

QUICK = [
    pytest.param({"on": "reference"}, id="reference"),
    pytest.param({"on": "local"}, id="local"),
    pytest.param({"on": "local", "policy": "round-robin", "local": LocalSettings(most_workers=2)}, id="local, bound"),
]


def started(broken: Query, options: dict[str, object], **more: object) -> Run:
    job = Job.of("j", [steady(), broken, plain()], {"cars": cars()})
    return start(job, **options, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", QUICK)
@pytest.mark.parametrize(("broken", "reason", "row"), FAILING)
def test_a_query_that_fails_is_named_with_the_function_and_the_row(
    broken: Callable[[], Query], reason: str, row: str, options: dict[str, object]
) -> None:
    with pytest.raises(QueryError) as caught:
        started(broken(), options).wait()
    error = caught.value
    assert error.queries == ("broken",)
    assert error.reason.startswith(reason)
    assert row in error.row
    assert str(error).startswith(f"query 'broken' failed: {reason}")
    assert "\n" not in str(error)
