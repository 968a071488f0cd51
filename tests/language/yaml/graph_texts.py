"""A short graph file, and texts that differ from it."""

from shoal.language.yaml.graph_file import load_graph
from shoal.model.query.graph import Graph

SHORT = """
stream-definitions:
- stream-id: 7
  name: cars
  tuple-format: [{name: ts, type: timestamp}, {name: road, type: int}, {name: speed, type: double}]
  lateness-s: 2
spequeries:
  queries:
  - name: busy
    operators:
    - {name: out, type: sink}
    - {name: n, type: aggregate, parameters: {keys: [road], aggregates: {n: [count]}}}
    - {name: ten, type: window, parameters: {size_us: 10000000, slide_us: 10000000}}
    - {name: fast, type: filter, parameters: {condition: [gt, [col, speed], [lit, 80]]}}
    - {name: in, type: source, parameters: {stream: cars}}
    edges:
    - {from: n, to: out}
    - {from: ten, to: n}
    - {from: fast, to: ten}
    - {from: in, to: fast}
"""
DATASETS = """
datasets:
- {id: 1, name: small, file: small.csv, type: csv}
- {name: big, file: cars, format: parquet, stream: cars, follow: true}
"""


def loaded(text: str) -> Graph:
    return load_graph(text, "file.yaml")


def wrong(old: str, new: str, text: str = SHORT) -> str:
    assert old in text
    return text.replace(old, new, 1)
