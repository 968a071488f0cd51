"""The JSON Schema of experiment files, made from the tables that the checks read, for editors.

It knows keys, types and tasks. What a schema cannot say, such as whether a stream is declared, is checked at load.
Keys of the original files may be written with `_` for `-`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.experiments.language.declarations import NETWORK_KEYS, SQL_KEYS, TRACEPOINT_KEYS
from shoal.experiments.language.experiment_file import (
    ANSWERS,
    DIALECTS,
    EXPERIMENT_KEYS,
    FIGURE_KEYS,
    FIGURE_TYPES,
    SUBJECTS,
    TOP_KEYS,
)
from shoal.experiments.language.parameters import POINT_KEYS
from shoal.experiments.language.task_flow import COORDINATOR, TASK_KEYS
from shoal.experiments.language.task_table import TASKS, TaskSpec
from shoal.language.yaml.definitions import (
    DATASET_KEYS,
    DATASET_TYPES,
    DEFINITION_KEYS,
    FORMATS,
    GENERATOR_KEYS,
    TIME_UNITS,
)
from shoal.language.yaml.graph_file import QUERY_KEYS
from shoal.workloads.catalog import WORKLOADS

Schema = dict[str, Any]
_TEXT: Schema = {"type": ["string", "integer"]}
_WHOLE: Schema = {"type": "integer"}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_VALUES: Schema = {"type": "object", "additionalProperties": _SCALAR}


def file_schema() -> Schema:
    """The schema of a whole file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Shoal experiments",
        **_mapping(_TOP, TOP_KEYS, required=["experiments"]),
        "$defs": {"task": _task(), "tasks": _list({"$ref": "#/$defs/task"})},
    }


def _mapping(known: Mapping[str, Schema], keys: Iterable[str], required: Iterable[str] = ()) -> Schema:
    """A mapping with these keys, and those with `_` for `-`; a key without a schema can have any value."""
    texts = keys if isinstance(keys, Mapping) else {}
    properties: Schema = {}
    for key in keys:
        described = {"description": texts[key]} if key in texts else {}
        for spelled in dict.fromkeys((key, key.replace("-", "_"))):
            properties[spelled] = {**known.get(key, {}), **described}
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    plain = [key for key in required if "-" not in key]
    return {**found, "required": plain} if plain else found


def _list(items: Schema, least: int = 1) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


def _choice(known: Iterable[str]) -> Schema:
    return {"enum": list(known)}


def _task() -> Schema:
    """A task: its name, and for each name the number of its arguments."""
    specs: dict[str, list[TaskSpec]] = {}
    for table in TASKS.values():
        for name, spec in table.items():
            if spec not in specs.setdefault(name, []):
                specs[name].append(spec)
    known: dict[str, Schema] = {
        "task": _choice(sorted(specs)),
        "node": {"oneOf": [{"type": "integer", "minimum": 1}, {"const": COORDINATOR}, _list(_WHOLE)]},
        "arguments": {"type": "array"},
        **{key: {"type": "boolean"} for key in ("parallel", "ack", "lock-spe", "realism")},
    }
    rules = [
        {
            "if": {"properties": {"task": {"const": name}}, "required": ["task"]},
            "then": {"properties": {"arguments": _arguments(listed)}},
        }
        for name, listed in specs.items()
    ]
    return {**_mapping(known, TASK_KEYS, required=["task"]), "allOf": rules}


def _arguments(specs: list[TaskSpec]) -> Schema:
    """How many arguments a task has, and where it has tasks among them."""
    found: Schema = {
        "description": " or ".join(f"{spec.usage}: {spec.summary}" for spec in specs),
        "minItems": min(spec.fewest for spec in specs),
    }
    most = [spec.most for spec in specs if spec.most is not None]
    if len(most) == len(specs):
        found["maxItems"] = max(most)
    if "tasks" in (last := [each.name for each in specs[0].arguments][-1:]):
        found["prefixItems"] = [*({} for _ in specs[0].arguments[:-1]), {"$ref": f"#/$defs/{last[0]}"}]
    return found


_POINTS: dict[str, Schema] = {
    "set": _VALUES,
    "vary": {"type": "object", "additionalProperties": _list(_SCALAR)},
    "points": _list(_VALUES),
    "repeat": {"type": "integer", "minimum": 1},
}
_FIGURE = _mapping({"type": _choice(FIGURE_TYPES), **dict.fromkeys(("x", "y", "by", "title"), _TEXT)}, FIGURE_KEYS)
_EXPERIMENT: dict[str, Schema] = {
    **_POINTS,
    **dict.fromkeys(("name", "title", "measure"), _TEXT),
    "id": _WHOLE,
    "flow": {"$ref": "#/$defs/tasks"},
    "workload": _choice(WORKLOADS),
    "small": _mapping(_POINTS, POINT_KEYS),
    "answers": _choice(ANSWERS),
    "metrics": _list(_TEXT, 0),
    "figures": _list({**_FIGURE, "required": ["type", "y"]}, 0),
}
_STREAM: dict[str, Schema] = {
    **dict.fromkeys(("stream-id", "id", "name"), _TEXT),
    "tuple-format": _list(_mapping({"name": _TEXT, "type": _TEXT}, ("name", "type"), ("name", "type"))),
    "intermediary-stream": {"type": "boolean"},
}
_DATASET: dict[str, Schema] = {
    **dict.fromkeys(("id", "name", "file", "stream"), _TEXT),
    "type": _choice(DATASET_TYPES),
    "format": _choice(FORMATS),
    "time-unit": _choice(TIME_UNITS),
    "follow": {"type": "boolean"},
    "generator": _choice(WORKLOADS),
    "events": {"type": "integer", "minimum": 1},
    "seed": _WHOLE,
}
_QUERY: dict[str, Schema] = {
    "id": _WHOLE,
    "name": _TEXT,
    "output-stream-id": _WHOLE,
    "sql-query": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    "not-supported": {"type": "object", "additionalProperties": _TEXT},
    "dependency-queries": _list(_WHOLE, 0),
    "operators": _list({"type": "object"}),
    "edges": _list({"type": "object"}),
}
_QUERIES = _list(_mapping(_QUERY, (*QUERY_KEYS, *SQL_KEYS), ("id", "name")), 0)
_AMOUNT: Schema = {"type": ["number", "string"]}
_PER_KIND = _mapping({"tuples": _AMOUNT, "migration": _AMOUNT}, ("tuples", "migration"))
_TOP: dict[str, Schema] = {
    "name": _TEXT,
    "dialect": _choice(DIALECTS),
    "experiments": _list(
        {**_mapping(_EXPERIMENT, EXPERIMENT_KEYS), "oneOf": [{"required": [subject]} for subject in SUBJECTS]}
    ),
    "stream-definitions": _list(_mapping(_STREAM, DEFINITION_KEYS, ("name", "tuple-format")), 0),
    "datasets": _list(_mapping(_DATASET, (*DATASET_KEYS, *GENERATOR_KEYS), ("id",)), 0),
    "spequeries": {
        "oneOf": [_QUERIES, _mapping({"queries": _QUERIES}, ("queries", "inputs", "outputs"), ("queries",))]
    },
    "tracepoints": _list(_mapping({"id": _WHOLE, "name": _TEXT}, TRACEPOINT_KEYS, ("id", "name")), 0),
    "plots": _list({"type": "object", "required": ["name", "type"]}, 0),
    "network": _mapping(dict.fromkeys(NETWORK_KEYS, _PER_KIND), NETWORK_KEYS, ("bandwidth",)),
}
