"""Pattern matching in queries: the operator that a pattern, its conditions and its measures make."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.errors import GraphError
from shoal.model.query.duration import Duration
from shoal.model.query.expression import Expression
from shoal.model.query.pattern import AFTER, SELECTIONS, Measure, Pattern, measure, pattern
from shoal.model.query.schema import Field, Schema

if TYPE_CHECKING:
    from shoal.language.python.flow import Flow


def matched(
    flow: "Flow",
    text: str,
    within_s: Duration,
    measures: Mapping[str, str],
    define: Mapping[str, Expression],
    after: str,
    selection: str,
) -> "Flow":
    """A flow followed by a match operator."""
    flow.not_inside_window("match")
    flow.check_time("match")
    where = flow.location("match")
    if not isinstance(text, str):
        raise GraphError(f"{where} needs a pattern such as 'A+ B'; got {text!r}")
    wanted = pattern(text)
    if after not in AFTER or selection not in SELECTIONS:
        raise GraphError(
            f"{where} goes on {' or '.join(AFTER)} and selects {' or '.join(SELECTIONS)}; got {after!r}, {selection!r}"
        )
    if selection == "strict" and any(element.negated for element in wanted.elements):
        raise GraphError(f"{where}: a negated element needs selection='next'; with 'strict' nothing lies in between")
    for variable, condition in define.items():
        if variable not in wanted.variables:
            raise GraphError(f"{where} defines {variable!r}; the pattern has {', '.join(wanted.variables)}")
        if not isinstance(condition, Expression):
            raise GraphError(f"{where} needs a condition for {variable!r}, such as col('speed') > 0; got {condition!r}")
        type_ = condition.type_in(flow.schema, f"{where} {variable!r}")
        if type_ != "bool":
            raise GraphError(f"{where} needs a condition for {variable!r}; {condition.text} is {type_}")
    if not measures:
        raise GraphError(f"{where} needs at least one measure, e.g. measures={{'n': 'count(*)'}}")
    chosen = {name: _measure(said, wanted, flow.schema) for name, said in measures.items()}
    for name, each in chosen.items():
        each.check(wanted.variables, flow.schema, f"{where} {name!r}")
    grouped = flow.grouped()
    keys = tuple(flow.schema.field(key) for key in flow.keys)
    fields = tuple(
        Field(name, each.output_type(flow.schema), nullable=each.may_be_null(flow.schema, wanted))
        for name, each in chosen.items()
    )
    clash = [name for name in chosen if name in flow.keys]
    if clash:
        raise GraphError(f"{where}: measure {clash[0]!r} has the name of a key")
    parameters = {
        "pattern": wanted.text,
        "define": {variable: define[variable].data() for variable in wanted.variables if variable in define},
        "measures": {name: each.data() for name, each in chosen.items()},
        "within_us": flow.duration_us(within_s, "match"),
        "after": after,
        "selection": selection,
        **grouped,
    }
    return flow.then("match", parameters, Schema((*keys, *fields))).fresh()


def _measure(text: str, wanted: Pattern, schema: Schema) -> Measure:
    """A measure as it is written; what `count` takes may also be a column of all rows."""
    read = measure(text)
    is_column = read.kind == "count" and read.variable not in wanted.variables and read.variable in schema
    return Measure("count", "", read.variable) if is_column else read
