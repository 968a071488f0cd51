"""Documents: YAML whose every part knows its line, and how plain data is written as YAML a person can read.

YAML 1.2's simple rules hold, in both directions: `true` and `false` are the only conditions, so `on`, `yes` and `no`
are texts, as are dates.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import yaml

from shoal.errors import GraphError, did_you_mean

WIDTH = 118
MOST_VALUES = 10_000_000
"""Values in one document, aliases counted as often as they are used."""
MOST_DIGITS = 1000
MOST_NESTED = 1000
_BRACKET = re.compile(r"[\[\]{}]")
_OPENING = " -?:"
_SHORT = 40
_PLAIN = re.compile(r"[^\W\d][\w.-]*(?: [\w.-]+)*")
_NULL, _BOOL = re.compile(r"~|null|Null|NULL|"), re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_TEXT = "tag:yaml.org,2002:str"
_AMBIGUOUS = re.compile(r"yes|no|on|off", re.IGNORECASE)
"""Texts that YAML 1.1 reads as booleans: written in quotes, read as texts."""


_Loader: Any = type(
    "_Loader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),  # the fast one, where it was built
    {"yaml_implicit_resolvers": {}},  # leaves every scalar a text; `_meaning` decides what it is
)


@dataclass(frozen=True)
class YamlPart:
    """A part of a document: a mapping, a list or a scalar, with the line it begins in."""

    node: yaml.Node
    file: str

    @classmethod
    def of(cls, text: str, file: str, needs: str) -> "YamlPart":
        """The whole of a document; `needs` is the key that an empty one lacks."""
        try:
            if _may_be_deep(text) and _is_deep(text):
                raise GraphError(f"{file}: the file is nested too deeply; at most {MOST_NESTED} levels are read")
            node = yaml.compose(text, _Loader)
        except yaml.MarkedYAMLError as error:
            began, noticed = error.context_mark, error.problem_mark or error.context_mark
            last = text.rstrip().count("\n") + 1
            line = f" line {min(noticed.line + 1, last)}" if noticed else ""
            within = f" {error.context} that begins in line {began.line + 1}" if began and error.context else ""
            raise GraphError(f"{file}{line}: this is not YAML: {error.problem or 'an error'}{within}") from error
        except yaml.YAMLError as error:
            raise GraphError(f"{file}: this is not YAML: {' '.join(str(error).split())}") from error
        if node is None:
            raise GraphError(f"{file}: the file is empty; it must have a key {needs!r}")
        if "*" in text and _expanded(node, {}) > MOST_VALUES:
            raise GraphError(f"{file}: aliases are nested too deeply: they stand for more than {MOST_VALUES:,} values")
        return cls(node, file)

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.file} line {self.node.start_mark.line + 1}"

    def fail(self, problem: str) -> NoReturn:
        """Reject the document because of this part."""
        raise GraphError(f"{self.where}: {problem}")

    def entries(self, what: str, known: Iterable[str] | None = None, *, hyphens: bool = False) -> dict[str, "YamlPart"]:
        """The entries of a mapping; unknown and repeated keys are refused. `hyphens`: take `_` in keys for `-`."""
        if not isinstance(self.node, yaml.MappingNode):
            self.fail(f"{what} must be a mapping; got {self.shown}")
        allowed = None if known is None else tuple(known)
        found: dict[str, YamlPart] = {}
        for key_node, value in self.node.value:
            key = YamlPart(key_node, self.file)
            name = key.text(f"key of {what}")
            name = name.replace("_", "-") if hyphens else name
            if allowed is not None and name not in allowed:
                near = did_you_mean(name, allowed)
                key.fail(f"{what} has no key {name!r}; there are {', '.join(allowed) or 'none'}{near}")
            if name in found:
                key.fail(f"{what} has key {name!r} twice")
            found[name] = YamlPart(value, self.file)
        return found

    def items(self, what: str) -> list["YamlPart"]:
        """The items of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.fail(f"{what} must be a list; got {self.shown}")
        return [YamlPart(node, self.file) for node in self.node.value]

    def text(self, what: str) -> str:
        """A scalar as a text."""
        value = self.data()
        if isinstance(value, bool | float) or value is None or not isinstance(value, str | int):
            self.fail(f"{what} must be a text; got {self.shown}")
        return str(value)

    def number(self, what: str) -> int:
        """A whole number."""
        value = self.data()
        if type(value) is not int:
            self.fail(f"{what} must be a whole number; got {self.shown}")
        return value

    def data(self) -> Any:
        """The part as plain data."""
        if isinstance(self.node, yaml.MappingNode):
            return {name: part.data() for name, part in self.entries("mapping").items()}
        if isinstance(self.node, yaml.SequenceNode):
            return [part.data() for part in self.items("list")]
        return self._scalar()

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def shown(self) -> str:
        """The part in a few characters, for errors."""
        text = flow(self.data())
        return text if len(text) <= 60 else f"{text[:57]}..."

    def _scalar(self) -> Any:
        value, tag = str(self.node.value), self.node.tag
        if getattr(self.node, "style", None) or tag != _TEXT:
            if tag not in (_TEXT, "!"):
                self.fail(f"tag {tag!r} is not understood; leave it out")
            return value
        if len(value) > MOST_DIGITS and (_INT.fullmatch(value) or _FLOAT.fullmatch(value)):
            self.fail(f"a number must have at most {MOST_DIGITS} digits; got {len(value)}")
        return _meaning(value)


def _may_be_deep(text: str) -> bool:
    """Whether the brackets or the start of some line could open many levels; quick, and never wrongly false."""
    levels = accumulate(1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(text))
    starts = (len(line) - len(line.lstrip(_OPENING)) for line in text.splitlines())
    return max(levels, default=0) > MOST_NESTED // 2 or max(starts, default=0) > MOST_NESTED // 2


def _is_deep(text: str) -> bool:
    """Whether a document has too many levels. PyYAML's parser has no recursion; its composer overflows the stack."""
    levels = accumulate(
        isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        for event in yaml.parse(text, _Loader)
    )
    return any(level > MOST_NESTED for level in levels)


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values that a node stands for, with every alias replaced by what it names; aliases share nodes."""
    if id(node) not in known:
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for each in inner for part in (each if isinstance(each, tuple) else (each,))]
        known[id(node)] = MOST_VALUES + 1  # an alias within what it names stands for infinitely many
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def _meaning(text: str) -> Any:
    """The value of an unquoted text."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def flow(value: Any) -> str:
    """Plain data in one line.

    >>> flow(["gt", ["col", "speed"], ["lit", 3.6]]), flow({"on": "a, b", "k": None})
    ('[gt, [col, speed], [lit, 3.6]]', '{"on": "a, b", k: null}')
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(name))}: {flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return _float(value)
    return str(value) if isinstance(value, int) else _text(str(value))


def _float(value: float) -> str:
    if math.isfinite(value):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"


def _text(text: str) -> str:
    """A text, in quotes where it could be read as something else."""
    if _PLAIN.fullmatch(text) and not _AMBIGUOUS.fullmatch(text) and isinstance(_meaning(text), str):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def block(name: str, value: Any, indent: int) -> Iterator[str]:
    """The lines of one entry of a mapping: one line if it fits, else one per element."""
    start = " " * indent + f"{flow(name)}:"
    line = f"{start} {flow(value)}"
    if len(line) <= WIDTH or not isinstance(value, Mapping | list) or not value:
        yield line
    elif isinstance(value, Mapping):
        yield start
        for key, each in value.items():
            yield from _wrapped(" " * (indent + 2) + f"{flow(str(key))}: ", each)
    else:
        yield start
        for each in value:
            yield from _wrapped(" " * indent + "- ", each)


def _wrapped(start: str, value: Any) -> Iterator[str]:
    """A value after the start of its line, folded if too long."""
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    line = start
    for atom in _atoms(value, WIDTH - len(start)):
        if len(line) + len(atom) > WIDTH and line.strip() and line != start:
            yield line.rstrip()
            line = indent
        line += f"{atom} "
    yield line.rstrip()


def _atoms(value: Any, room: int) -> list[str]:
    """The pieces of a value between which a line may be folded: short lists stay whole."""
    text = flow(value)
    if len(text) <= room or not isinstance(value, list) or not value:
        return [text]
    atoms: list[str] = []
    for each in value:
        atoms += _atoms(each, _SHORT)
        atoms[-1] += ","
    return ["[" + atoms[0], *atoms[1:-1], atoms[-1][:-1] + "]"] if len(atoms) > 1 else [f"[{atoms[0][:-1]}]"]
