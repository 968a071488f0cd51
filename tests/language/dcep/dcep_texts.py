"""Graph files in DCEP-Sim's operators, written short."""

from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.query.graph import Query

STREAMS = """\
stream-definitions:
- {stream-id: 0, name: StopStream, tuple_format: [{name: streamList, type: string}, {name: node, type: int}]}
- stream-id: 2
  name: Auction
  tuple-format:
  - {name: dateTime, type: timestamp}
  - {name: id, type: int}
  - {name: itemName, type: string}
  - {name: description, type: string}
  - {name: reserve, type: double}
- stream-id: 3
  name: Bid
  tuple-format:
  - {name: dateTime, type: timestamp}
  - {name: auction, type: int}
  - {name: bidder, type: int}
  - {name: price, type: long}
"""
LINE = {"Output 0": "output", "in": "input {stream-id: 3, alias: B}"}


def text(operators: dict[str, str], *edges: str) -> str:
    """A file with one query; an edge is written `from -> to`, an operator `type {parameters}`."""
    lines = [STREAMS + "spequeries:", "  outputs: []", "  inputs: []", "  queries:", "  - operators:"]
    for name, said in operators.items():
        type_, _, parameters = said.partition(" ")
        lines += [f"    - name: {name}", f"      type: {type_}", f"      parameters: {parameters or '{}'}"]
    lines += ["    name: NewName0", "    id: 5", "    edges:"]
    for edge in edges:
        first, _, second = edge.partition(" -> ")
        to = f", to: {{name: {second}, type: intermediate}}" if second else ""
        lines.append(f"    - {{stream: s, from: {{name: {first}, type: intermediate}}{to}}}")
    return "\n".join(lines)


def query(operators: dict[str, str], *edges: str) -> Query:
    graph = load_graph(text(operators, *edges), "old.yaml")
    assert load_graph(save_graph(graph), "again.yaml") == graph
    return graph.queries["NewName0"]
