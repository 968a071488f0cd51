"""The delay model `traced`: costs fitted to the turns that `shoal profile` recorded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.measured_contention import Contention

Node = Mapping[str, Any]
"""A node as a profile has it: a name, a kind, the names of its inputs, a cost, and what it took and gave."""
NODE_KEYS = frozenset({"name", "kind", "inputs", "cost", "turns", "events_in", "events_out"})
TURN_EVENTS = 65_536
"""Events in a turn of a node that gets many at once: a block is 131,072, and often lies across two pieces of memory."""
NO_TURNS: Mapping[str, float] = {"turns": 0, "cpu_s": 0.0}
AGAIN = "measure it again with shoal profile"


@dataclass(frozen=True)
class Traced:
    """Costs of a profile, which must be one of the same queries."""

    program: Program
    profile: Mapping[str, Any] = field(repr=False)
    divided: bool = False
    """Whether costs are those of a run in which lanes are divided by worker."""
    slowed: Contention | None = None
    """How workers slow each other down, if they do: nodes differ in how much."""

    def __post_init__(self) -> None:
        """Reject a profile of other queries."""
        lanes = {node.get("lane"): node for node in self._nodes if node["kind"] == "lane"}
        for lane in self.program.lanes:
            if lane.kernel is not None:
                _check(lane, lanes.get(lane.number))
        sources = {node["name"] for node in self._nodes if node["kind"] == "source"}
        for stream in self.program.inputs:
            if f"source {stream}" not in sources:
                raise ConfigError(f"profile has no stream {stream!r}; {AGAIN}")

    def nodes(self, *, divided: bool = False) -> list[Node]:
        """The nodes of a usual run, or of one in which lanes are divided by worker; inputs before outputs."""
        return nodes_of(self.profile, "divided" if divided else "simulator")

    @cached_property
    def _nodes(self) -> list[Node]:
        return self.nodes(divided=self.divided)

    @property
    def worker(self) -> Mapping[str, Any]:
        """What a worker spends between turns: `decision_s`, `idle_poll_s` and others."""
        found: Mapping[str, Any] = self.profile["divided" if self.divided else "simulator"]["worker"]
        return found

    def stream(self, stream: str) -> Cost:
        """The source, the steps behind it up to the lanes, and the results that pass no lane; per event.

        Lanes that get nothing but a watermark take a turn, too. These turns belong to the stream or lane before them.
        With contention, only what several lanes share counts here.
        """
        source = self._source(stream)
        shared = [node for node in self._behind(source) if not self._apart or len(self._readers_of[node["name"]]) != 1]
        return self._chain(source, self._turn(source, 1.0, first=True), [source, *shared])

    def lane(self, lane: Lane) -> Cost:
        """The operator with state, and for every result the steps and sinks behind it.

        With contention, a lane without state costs its own steps and sinks, per event of its stream.
        """
        if lane.kernel is None:
            origins = [feed.origin for feed in lane.feeds if isinstance(feed.origin, str)]
            return self._own(origins[0], lane) if self._apart and origins else Cost()
        own = next(node for node in self._nodes if node.get("lane") == lane.number)
        cost = self._turn(own, 1.0, first=True).in_turns_of(TURN_EVENTS)
        waits = self._waits([own], {own["name"]: 1.0})
        cost = replace(cost, rows_per_event=own.get("merged_rows", 0) / max(1, own["events_in"]), waits=waits)
        behind = list(self._behind(own))
        for node in behind:
            cost = cost.and_per_result(self._slowed(self._turn(node, 1.0)), **_shares(node, own["events_out"]))
        if self.slowed is None:
            lanes = [lane for node in (own, *behind) for lane in self._lanes_at(node)]
            empty_s = sum(map(self._empty_s, (*behind, *lanes)))
            return replace(cost, fixed_s=cost.fixed_s + empty_s / max(1, own["turns"]))
        bare, of_behind = _bare_turns(own), [(self._empty_s(node), _bare_turns(node)) for node in behind]
        of_behind = [(empty_s, turns) for empty_s, turns in of_behind if turns]
        each_s = sum(empty_s / max(bare, turns) for empty_s, turns in of_behind)
        more_s = sum(empty_s * (1 - min(1, bare / turns)) for empty_s, turns in of_behind)
        bare_s = self._bare_s(own) / self.slowed.typical
        bare_s += each_s if bare else sum(empty_s / turns for empty_s, turns in of_behind)
        work = self.slowed.typical / self.slowed.turn_over_work
        closings = tuple(value / work for value in self.slowed.closings.get(own["name"], ()))
        fixed_s = cost.fixed_s + more_s / max(1, own["turns"])
        return replace(cost, fixed_s=fixed_s, bare_s=bare_s, closings=closings)

    def feed(self, stream: str, lane: Lane) -> Cost:
        """The steps from a stream to a lane with state, up to those that other lanes need as well; per event."""
        return self._own(stream, lane) if self._apart else Cost()

    @property
    def _apart(self) -> bool:
        """Whether the steps to every lane are a task of their own, as they take turns of their own when run."""
        return self.slowed is not None

    def _own(self, stream: str, lane: Lane) -> Cost:
        """What only one lane needs of a stream."""
        source, key = self._source(stream), (stream, _key(lane))
        nodes = [node for node in self._behind(source) if self._readers_of[node["name"]] == {key}]
        return self._chain(source, Cost(), nodes)

    def _chain(self, source: Node, cost: Cost, nodes: Sequence[Node]) -> Cost:
        """A cost, and that of some nodes behind a source, per event of that."""
        turns = {node["name"]: min(1.0, node["turns"] / max(1, source["turns"])) for node in nodes}
        behind = [node for node in nodes if node is not source]
        for place, node in enumerate(behind):
            first = place == 0 and node is nodes[0]
            own = self._turn(node, turns[node["name"]], first=first).in_turns_of(TURN_EVENTS)
            cost = cost.and_per_event(own, **_shares(node, source["events_in"]))
        lanes = () if self._apart else (lane for node in nodes for lane in self._lanes_at(node))
        empty_s = sum(map(self._empty_s, (*behind, *lanes)))
        return replace(cost, fixed_s=cost.fixed_s + empty_s / max(1, source["turns"]), waits=self._waits(nodes, turns))

    def _source(self, stream: str) -> Node:
        source = next((node for node in self._nodes if node["name"] == f"source {stream}"), None)
        if source is None:
            raise ConfigError(f"stream must be one of {', '.join(self.program.inputs)}; got {stream!r}")
        return source

    @cached_property
    def _readers_of(self) -> Mapping[str, set[tuple[str, object]]]:
        """Of every node behind a source, the streams and lanes for which it is needed; those without state by table."""
        found: dict[str, set[tuple[str, object]]] = {node["name"]: set() for node in self._nodes}
        tables = {outlet.table: _key(lane) for lane in self.program.lanes for outlet in lane.outlets}
        for node in self._nodes:
            if node["kind"] == "lane":
                self._mark(node["inputs"], node["lane"], found)
            elif node["kind"] == "outlet":
                self._mark([node["name"]], tables.get(node["operators"][0].removeprefix("sink ")), found)
        return found

    def _mark(self, names: Sequence[str], key: object, found: Mapping[str, set[tuple[str, object]]]) -> None:
        """Mark all nodes on the ways from sources to some nodes; ways from other lanes belong to those."""
        by_name = {node["name"]: node for node in self._nodes}
        for name in names:
            way = [by_name[name]]
            while way[-1]["inputs"] and way[-1]["kind"] != "lane":
                way.append(by_name[way[-1]["inputs"][0]])
            if way[-1]["kind"] == "source":
                for node in way:
                    found[node["name"]].add((way[-1]["name"].removeprefix("source "), key))

    def _turn(self, node: Node, turns: float, *, first: bool = False) -> Cost:
        """The cost of a node that has so many turns; each needs a decision of the worker.

        With contention a worker pauses before the `first` node of a task, so that the decision is no work of it.
        """
        cost = Cost.of(node["cost"])
        if self.slowed is None:
            return replace(cost, fixed_s=(cost.fixed_s + self._decision_s) * turns)
        own_s = cost.fixed_s * self.slowed.of_node(node["name"])
        return replace(cost, fixed_s=(own_s + (0.0 if first else self._decision_s / self.slowed.typical)) * turns)

    def _waits(self, nodes: Sequence[Node], turns: Mapping[str, float]) -> tuple[float, ...]:
        """How the fixed part of some nodes varies that have so many turns each."""
        if self.slowed is None:
            return ()
        of_turn = {each["name"]: self._turn(each, 1.0, first=True).fixed_s for each in nodes}
        return self.slowed.together({name: fixed_s * turns[name] for name, fixed_s in of_turn.items()})

    def _slowed(self, cost: Cost) -> Cost:
        """The cost of a node whose turns are work of another: its fixed part is slowed down more than work is."""
        return cost if self.slowed is None else replace(cost, fixed_s=cost.fixed_s * self.slowed.turn_over_work)

    @property
    def _decision_s(self) -> float:
        if self.slowed is not None:
            return self.slowed.pause_s
        return float(self.worker.get("decision_s") or 0.0)

    def _empty_s(self, node: Node) -> float:
        """What the turns of a node cost that brought nothing but a watermark; they wait for nobody."""
        empty = node.get("empty_turns", NO_TURNS)
        found_s = float(empty["cpu_s"] + empty["turns"] * self._decision_s)
        return found_s / (1.0 if self.slowed is None else self.slowed.typical)

    def _bare_s(self, lane: Node) -> float:
        """What a turn of a lane costs that brings only a watermark; what it costs others if it has had none."""
        own = [lane] if _bare_turns(lane) else [node for node in self._nodes if node["kind"] == "lane"]
        turns = sum(map(_bare_turns, own))
        return sum(node.get("empty_turns", NO_TURNS)["cpu_s"] for node in own) / turns if turns else 0.0

    def _lanes_at(self, node: Node) -> Iterator[Node]:
        """The lanes that read a node, and no other node before it."""
        for reader in self._readers.get(node["name"], ()):
            if reader["kind"] == "lane" and reader["inputs"][0] == node["name"]:
                yield reader

    def selectivity(self, lane: Lane) -> float:
        """Results per event."""
        return measured_selectivity(self.profile, lane)

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self._nodes:
            for name in node["inputs"]:
                found.setdefault(name, []).append(node)
        return found

    def _behind(self, node: Node) -> Iterator[Node]:
        """All nodes without state that read a node, directly or not, up to the next lanes."""
        for reader in self._readers.get(node["name"], ()):
            if reader["kind"] != "lane":
                yield reader
                yield from self._behind(reader)


def nodes_of(profile: Mapping[str, Any] | None, form: str = "simulator") -> list[Node]:
    """The nodes of a profile; raises an error that says how to get one."""
    if profile is None:
        raise ConfigError("delay model traced needs a profile; measure one with shoal profile TARGET -o FILE")
    section = profile.get(form)
    if not isinstance(section, Mapping) or not isinstance(section.get("nodes"), list):
        raise ConfigError(f"profile has no nodes under {form!r}; {AGAIN} --on local")
    for number, node in enumerate(section["nodes"]):
        if not isinstance(node, Mapping) or not node.keys() >= NODE_KEYS:
            raise ConfigError(
                f"node {number} of {form!r} in the profile must have {', '.join(sorted(NODE_KEYS))}; {AGAIN}"
            )
    return list(section["nodes"])


def measured_selectivity(profile: Mapping[str, Any] | None, lane: Lane) -> float:
    """Results per event of a lane, from a profile."""
    if profile is None:
        raise ConfigError(f"selectivity of lane {lane.number} is not known without a profile; give one")
    if lane.kernel is None:
        return 1.0
    node = next((node for node in nodes_of(profile) if node.get("lane") == lane.number), None)
    return float(_check(lane, node)["selectivity"])


def _check(lane: Lane, node: Node | None) -> Node:
    """The node of a lane, if it has the same operators."""
    operators = sorted({str(instance).rpartition("/")[0] for instance in lane.instances})
    if node is None or list(node["operators"]) != operators:
        raise ConfigError(f"profile is one of other queries: lane {lane.number} has other operators there; {AGAIN}")
    return node


def _bare_turns(node: Node) -> int:
    """The turns of a node that brought only a watermark."""
    return int(node.get("empty_turns", NO_TURNS)["turns"])


def _key(lane: Lane) -> object:
    """How a lane is named among those that need a node: by its number, or by its tables if it has no state."""
    return lane.number if lane.kernel is not None else tuple(outlet.table for outlet in lane.outlets)


def _shares(node: Node, rows: int) -> dict[str, float]:
    """Events and results of a node for every row of one upstream."""
    per_row = 1 / rows if rows else 0.0
    return {"events": node["events_in"] * per_row, "results": node["events_out"] * per_row}
