"""Nodes of a local run as a profile has them: the parts of a lane on several workers count as one node."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node, OutletNode, StepNode
from shoal.runtimes.local.dataflow.source_node import SourceNode


@dataclass
class NodeGroup:
    """Nodes that do the same for different instances; `places` are theirs among all nodes of the run."""

    name: str
    node: Node
    inputs: list[str]
    places: list[int] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of the nodes."""
        return kind_of(self.node)


def groups_of(nodes: Sequence[Node]) -> list[NodeGroup]:
    """All nodes in groups, inputs before outputs; the second group of one name gets a number.

    Parts have the same name and read the same groups, but belong to different workers. Nodes of one worker are
    different nodes, however alike.
    """
    writer_of = {id(channel): place for place, node in enumerate(nodes) for channel in node.outputs}
    groups: dict[object, NodeGroup] = {}
    group_of: list[NodeGroup] = []
    alike: dict[object, int] = {}
    names: dict[str, int] = {}
    for place, node in enumerate(nodes):
        inputs = list(dict.fromkeys(group_of[writer_of[id(channel)]].name for channel in node.inputs))
        number = node.lane.number if isinstance(node, LaneNode) else None
        key = (kind_of(node), node.name, number, tuple(inputs))
        alike[key, node.home] = order = alike.get((key, node.home), -1) + 1
        if (key, order) not in groups:
            names[node.name] = names.get(node.name, 0) + 1
            name = node.name if names[node.name] == 1 else f"{node.name} #{names[node.name]}"
            groups[key, order] = NodeGroup(name, node, inputs)
        group_of.append(groups[key, order])
        group_of[-1].places.append(place)
    return list(groups.values())


def kind_of(node: Node) -> str:
    """The kind of a node: source, steps, split, lane or outlet."""
    if isinstance(node, SourceNode):
        return "source"
    if isinstance(node, LaneNode):
        return "lane"
    if isinstance(node, OutletNode):
        return "outlet"
    return "steps" if isinstance(node, StepNode) else "split"


def operators_of(node: Node) -> list[str]:
    """The operators of a node: those with state by their ids, steps by their texts."""
    if isinstance(node, LaneNode):
        return sorted({str(instance).rpartition("/")[0] for instance in node.lane.instances})
    if isinstance(node, StepNode):
        return [step.text for step in node.steps]
    return [node.name]
