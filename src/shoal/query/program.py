"""Programs: a graph in the form that runs, made of lanes; the same graph always gives the same program."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shoal.kernels.aggregate import AggregateKernel
from shoal.kernels.panes import PaneShape
from shoal.model.aggregate import Aggregate
from shoal.model.expression import Binary, Column, Constant, Expression, from_data
from shoal.model.graph import Graph, InstanceId, Operator, Query
from shoal.model.schema import Schema
from shoal.model.window import Window
from shoal.query.lane import Lane, Outlet
from shoal.query.steps import DispatchByGroup, DispatchByValue, Filter, Select, Step


@dataclass(frozen=True)
class Input:
    """What a program needs to know of a stream."""

    stream: str
    schema: Schema
    time: str
    lateness_us: int
    max_ahead_us: int | None


@dataclass(frozen=True)
class Program:
    """All lanes of a graph."""

    graph: Graph
    inputs: Mapping[str, Input]
    lanes: tuple[Lane, ...]

    @cached_property
    def instances(self) -> tuple[InstanceId, ...]:
        """Stateful instances, lane by lane: the order in which bindings are written down."""
        return tuple(instance for lane in self.lanes if lane.kernel for instance in lane.instances)

    def lanes_of(self, stream: str) -> tuple[Lane, ...]:
        """The lanes that read a stream."""
        return tuple(lane for lane in self.lanes if lane.stream == stream)

    def columns(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that some lane looks at, event time included, in schema order."""
        wanted = {self.inputs[stream].time}.union(*(lane.reads() for lane in self.lanes_of(stream)))
        return tuple(name for name in self.inputs[stream].schema.names if name in wanted)


@dataclass(frozen=True)
class _Chain:
    """One query taken apart: a shape shared with others, and the constant that makes it different."""

    query: Query
    before: tuple[Step, ...]
    dispatch: str
    value: Any
    after: tuple[Step, ...]
    window: Operator | None
    aggregate: Operator | None
    outlet: tuple[Step, ...]

    @property
    def shape(self) -> tuple[Any, ...]:
        """Equal for the queries that can run in one lane."""
        stateful = None
        if self.window and self.aggregate:
            stateful = (self.window.text, self.aggregate.text)
        table = None if stateful else self.query.table
        steps = tuple(step.text for step in self.before), tuple(step.text for step in self.after)
        return (self.query.stream, steps, self.dispatch, type(self.value), stateful, table)


def compile_graph(graph: Graph) -> Program:
    """Find the lanes of a graph."""
    families = _families(_chain(query) for query in graph.queries.values())
    lanes = tuple(_lane(number, chains) for number, chains in enumerate(families))
    inputs = {stream: _input(operator.parameters) for stream, operator in graph.streams.items()}
    return Program(graph, inputs, lanes)


def _families(chains: Iterable[_Chain]) -> Iterable[list[_Chain]]:
    """Queries that can run in one lane.

    An instance is one operator's. Queries that say the same in other words have operators of their own, of the
    same shape and value, and so must not share a lane: one of them would keep its state under the other's name.
    """
    families: dict[tuple[Any, ...], list[_Chain]] = {}
    twins: dict[tuple[Any, ...], dict[str, int]] = {}
    for chain in chains:
        known = twins.setdefault((chain.shape, chain.value), {})
        twin = known.setdefault(chain.aggregate.id if chain.aggregate else "", len(known))
        families.setdefault((chain.shape, twin), []).append(chain)
    return families.values()


def _input(parameters: Mapping[str, Any]) -> Input:
    return Input(
        parameters["stream"],
        Schema.of(parameters["schema"]),
        parameters["time"],
        parameters["lateness_us"],
        parameters["max_ahead_us"],
    )


def _chain(query: Query) -> _Chain:
    operators = query.operators[1:-1]
    kinds = [operator.kind for operator in operators]
    cut = kinds.index("aggregate") if "aggregate" in kinds else len(operators)
    window, aggregate = (operators[cut - 1], operators[cut]) if cut < len(operators) else (None, None)
    steps = list(_steps(operators[: cut - 1] if aggregate else operators))
    types = query.source.parameters["schema"]
    outlet = tuple(_steps(operators[cut + 1 :]))
    found = None if aggregate and aggregate.groups > 1 else _equality(steps, types)
    if found is None:
        return _Chain(query, tuple(_lasting(steps)), "", None, (), window, aggregate, outlet)
    at, column, value = found
    before, after = tuple(_lasting(steps[:at])), tuple(_lasting(steps[at + 1 :]))
    return _Chain(query, before, column, value, after, window, aggregate, outlet)


def _steps(operators: Sequence[Operator]) -> Iterator[Step]:
    for operator in operators:
        if operator.kind == "filter":
            yield from (Filter(condition) for condition in _conjuncts(from_data(operator.parameters["condition"])))
        elif operator.kind == "select":
            yield Select(tuple((name, from_data(data)) for name, data in operator.parameters["columns"]))


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _lasting(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps without those that only leave columns out: a lane looks at the columns it needs anyway."""
    return (step for step in steps if not (isinstance(step, Select) and step.only_drops))


def _equality(steps: Sequence[Step], types: Mapping[str, str]) -> tuple[int, str, Any] | None:
    """Place, column and constant of the first filter `column == constant` on a stream's integers or texts."""
    for at, step in enumerate(steps):
        match step:
            case Filter(Binary("eq", Column(name), Constant(value))):
                if type(value) is {"int64": int, "string": str}.get(types[name]):
                    return at, name, value
            case Select(only_drops=False):  # the columns behind it are no longer the stream's
                return None
    return None


def _lane(number: int, chains: Sequence[_Chain]) -> Lane:
    """One lane for queries of one shape; queries that share their operators share an instance."""
    first = chains[0]
    aggregate = first.aggregate
    if first.dispatch:
        values = tuple(dict.fromkeys(chain.value for chain in chains))
        dispatch: Step = DispatchByValue(first.dispatch, values)
    else:
        values = ()
        partition = tuple(aggregate.parameters.get("partition", ())) if aggregate else ()
        dispatch = DispatchByGroup(partition, aggregate.groups if aggregate else 1)
    kernel = _kernel(first, values)
    constant = (
        first.dispatch if aggregate and first.dispatch in aggregate.parameters["keys"] and _constant(first) else ""
    )
    return Lane(
        number,
        first.query.stream,
        (*first.before, dispatch, *first.after),
        kernel,
        _instances(chains, values),
        tuple(_outlets(chains, values)),
        constant,
        values if constant else (),
    )


def _instances(chains: Sequence[_Chain], values: tuple[Any, ...]) -> tuple[InstanceId, ...]:
    """Instances in the order of their dispatch values; lanes without state have none."""
    first = chains[0]
    if first.aggregate is None:
        return ()
    if not values:
        return tuple(first.aggregate.instances)
    by_value = {chain.value: next(chain.aggregate.instances) for chain in chains if chain.aggregate}
    return tuple(by_value[value] for value in values)


def _constant(chain: _Chain) -> bool:
    """Whether the dispatch column still has its constant value when the aggregate reads it."""
    redefined = (
        not (isinstance(expression, Column) and expression.name == name)
        for step in chain.after
        if isinstance(step, Select)
        for name, expression in step.columns
        if name == chain.dispatch
    )
    return not any(redefined)


def _kernel(chain: _Chain, values: tuple[Any, ...]) -> AggregateKernel | None:
    if chain.aggregate is None or chain.window is None:
        return None
    parameters = chain.aggregate.parameters
    keys = tuple(parameters["keys"])
    if values and _constant(chain):
        keys = tuple(key for key in keys if key != chain.dispatch)
    aggregates = tuple((name, Aggregate(*plain)) for name, plain in parameters["aggregates"].items())
    used = {*keys, *(aggregate.column for _, aggregate in aggregates if aggregate.column)}
    types = tuple((name, type_) for name, type_ in parameters["types"].items() if name in used)
    window = Window(chain.window.parameters["size_us"], chain.window.parameters["slide_us"])
    shape = PaneShape(keys, window, aggregates, types, by_instance=bool(values))
    return AggregateKernel(shape, parameters["time"])


def _outlets(chains: Sequence[_Chain], values: tuple[Any, ...]) -> Iterator[Outlet]:
    """One outlet per table and following steps; a second query of the same instance needs a second outlet."""
    groups = chains[0].aggregate.groups if chains[0].aggregate else 1
    number = {value: i for i, value in enumerate(values)}
    places: dict[tuple[Any, ...], dict[int, _Chain]] = {}
    for chain in chains:
        instances = [number[chain.value]] if values else range(groups)
        repetition = 0
        key = (chain.query.table, tuple(step.text for step in chain.outlet))
        while not places.setdefault((*key, repetition), {}).keys().isdisjoint(instances):
            repetition += 1
        places[(*key, repetition)].update(dict.fromkeys(instances, chain))
    for place in places.values():
        first = next(iter(place.values()))
        names = tuple(place[i].query.name if i in place else None for i in range(len(values) or groups))
        yield Outlet(first.query.table, first.outlet, Schema.of(first.query.sink.parameters["columns"]), names)


def program_instances(graph: Graph) -> tuple[InstanceId, ...]:
    """A graph's stateful instances in the order in which bindings are written down."""
    return compile_graph(graph).instances
