"""User-defined utilities: what the state of a query is worth, by the keys that it belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.errors import GraphError
from shoal.model.query.expression import Expression
from shoal.model.query.graph import STATEFUL, Operator
from shoal.model.query.pattern import uses_previous
from shoal.model.query.schema import Schema

NUMERIC = ("int64", "float64")


def utility_data(utility: str | Expression, operators: Sequence[Operator], query: str) -> Any:
    """A utility in plain form; raises if no operator of the query has the keys it is computed from."""
    expression = utility if isinstance(utility, Expression) else _read(utility, query)
    if uses_previous(expression):
        raise GraphError(f"utility of query {query!r} must not read the previous row")
    fitting = list(fitting_keys(expression, operators))
    if not fitting:
        keyed = "; ".join(f"{each.kind}: {', '.join(keys_of(each)) or 'none'}" for each in _stateful(operators))
        raise GraphError(
            f"utility of query {query!r} must be computed from the keys of an operator with state; "
            f"they are {keyed or 'none, since it keeps no state'}; got columns {', '.join(expression.columns())}"
        )
    for types in fitting:
        type_ = expression.type_in(Schema.of(types), f"utility of query {query!r}")
        if type_ not in NUMERIC:
            raise GraphError(f"utility of query {query!r} must be a number; got {type_}")
    return expression.data()


def fitting_keys(expression: Expression, operators: Sequence[Operator]) -> Iterator[Mapping[str, Any]]:
    """The keys, with their types, of every operator from whose keys a utility can be computed."""
    columns = set(expression.columns())
    for operator in _stateful(operators):
        keys = keys_of(operator)
        if columns <= keys.keys():
            yield keys


def keys_of(operator: Operator) -> Mapping[str, Any]:
    """The keys of an operator with state and their types; those of a join have the names of its left side."""
    parameters = operator.parameters
    if operator.kind == "join":
        return {left: parameters["types"][0][left] for left, _ in parameters["keys"]}
    return {key: parameters["types"][key] for key in parameters["keys"]}


def _stateful(operators: Sequence[Operator]) -> Iterator[Operator]:
    return (operator for operator in operators if operator.kind in STATEFUL)


def _read(text: str, query: str) -> Expression:
    from shoal.language.sql.expressions import scalar  # sqlglot is slow to import, and few queries need it

    return scalar(text, f"utility of query {query!r}")
