"""The codec: what is encoded comes back, and what is malformed is refused with the field it is about."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import FormatError, MessageError
from shoal.storage.codec import Codec, kind_of

Name = NewType("Name", str)


@dataclass(frozen=True)
class Part:
    name: Name
    bytes: int
    members: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: tuple[Part, ...]
    cost_s: float
    pair: tuple[int, str] = (0, "")
    counts: Mapping[int, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pair[0] < 0:
            raise ValueError(f"pair must begin with 0 or more; got {self.pair[0]}")


@dataclass(frozen=True)
class NothingInIt:
    pass


CODEC = Codec[Part | Whole | NothingInIt]([Part, Whole, NothingInIt], format=3)
ANY_TEXT = st.text(st.characters())  # half surrogate pairs too: names of files may hold them
SETTINGS = st.dictionaries(ANY_TEXT, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT)
PARTS = st.builds(
    Part, ANY_TEXT.map(Name), st.integers(), st.none() | st.lists(ANY_TEXT, max_size=3).map(tuple)
)  # fmt: skip
WHOLES = st.builds(
    Whole,
    parts=st.lists(PARTS, max_size=3).map(tuple),
    cost_s=st.floats(allow_nan=False),
    pair=st.tuples(st.integers(0), ANY_TEXT),
    counts=st.dictionaries(st.integers(), st.integers()),
    settings=SETTINGS,
)
MESSAGES = st.one_of(PARTS, WHOLES, st.just(NothingInIt()))


@settings(deadline=None)
@given(value=MESSAGES)
def test_what_is_encoded_comes_back(value: Part | Whole | NothingInIt) -> None:
    assert CODEC.decode(CODEC.encode(value)) == value


@settings(deadline=None)
@given(value=MESSAGES)
def test_a_message_is_one_line(value: Part | Whole | NothingInIt) -> None:
    assert b"\n" not in CODEC.encode(value)


def test_floats_that_are_not_finite_come_back() -> None:
    value = Whole(parts=(Part(Name("a"), 1, None),), cost_s=-math.inf, settings={"most_s": math.inf, "none": None})
    assert CODEC.decode(CODEC.encode(value)) == value
    back = CODEC.decode(CODEC.encode(Whole(parts=(), cost_s=math.nan)))
    assert isinstance(back, Whole)
    assert math.isnan(back.cost_s)


def test_the_format_and_the_kind_stand_in_front() -> None:
    assert CODEC.encode(Part(Name("a"), 1)) == b'{"format":3,"kind":"part","name":"a","bytes":1,"members":null}'
    assert CODEC.encode(NothingInIt()) == b'{"format":3,"kind":"nothing-in-it"}'
    assert [kind_of(type_) for type_ in (Part, NothingInIt)] == ["part", "nothing-in-it"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"kind":"part","format":3,"name":"a","bytes":1}', id="the header in another order"),
        pytest.param('{"name":"a","bytes":1,"kind":"part","format":3}', id="the header behind the fields"),
        pytest.param(' { "format" : 3, "kind":"part", "name":"a", "bytes":1 }', id="white space"),
        pytest.param('{"format":3,"kind":"part","name":"a","bytes":1,"colour":"red"}', id="a field it does not know"),
    ],
)
def test_json_from_elsewhere_is_read_as_well(text: str) -> None:
    assert CODEC.decode(text.encode()) == Part(Name("a"), 1)


def part(fields: str) -> bytes:
    return b'{"format":3,"kind":"part",%s}' % fields.encode()


def whole(fields: str) -> bytes:
    return b'{"format":3,"kind":"whole",%s}' % fields.encode()


MALFORMED = [
    (b"", "is damaged: it must be a JSON object; expecting value"),
    (b"\x00\xff", "is damaged: it must be a JSON object; "),
    (b"[1]", "is damaged: it must be object; got array"),
    (b"null", "is damaged: it must be object; got null"),
    (b'{"x":' + b"[" * 100_000, "is damaged: it must be a JSON object; maximum recursion depth"),
    (b'{"format":3}', "is damaged: field kind must be part, whole, nothing-in-it; got none"),
    (b'{"format":3,"kind":"moon"}', "is damaged: field kind must be part, whole, nothing-in-it; got 'moon'"),
    (b'{"format":"3","kind":"part"}', "is damaged: field format must be int; got str"),
    (b'{"format":3,"kind":7}', "is damaged: field kind must be str; got int"),
    (part('"name":"a"'), "is damaged: field bytes is missing"),
    (part('"name":"a","bytes":"1"'), "is damaged: field bytes must be int; got str"),
    (part('"name":"a","bytes":1.5'), "is damaged: field bytes must be int; got float"),
    (part('"name":"a","bytes":true'), "is damaged: field bytes must be int; got bool"),
    (part('"name":null,"bytes":1'), "is damaged: field name must be str; got null"),
    (part('"name":"a","bytes":1,"members":["x",2]'), "is damaged: field members[1] must be str; got int"),
    (part('"name":"a","bytes":1,"members":{}'), "is damaged: field members must be array | null; got object"),
    (part('"name":"a","bytes":1')[:-1], "is damaged: it must be a JSON object; expecting ',' delimiter"),
    (whole('"parts":[{"name":"a"}],"cost_s":1'), "is damaged: field parts[0].bytes is missing"),
    (whole('"parts":[{"name":"a","bytes":[]}],"cost_s":1'), "is damaged: field parts[0].bytes must be int; got array"),
    (whole('"parts":[],"cost_s":1,"pair":[Infinity,""]'), "is damaged: field pair[0] must be int; got float"),
    (whole('"parts":[],"cost_s":null'), "is damaged: field cost_s must be float; got null"),
    (whole('"parts":[],"cost_s":1,"pair":[1]'), "is damaged: field pair must be array of length 2"),
    (whole('"parts":[],"cost_s":1,"pair":[-1,""]'), "is damaged: it: pair must begin with 0 or more; got -1"),
    (whole('"parts":[],"cost_s":1,"counts":{"x":1}'), "is damaged: field keys of counts must be int; got str"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"), MALFORMED, ids=[content[:80].decode("latin1") for content, _ in MALFORMED]
)
def test_a_malformed_message_is_refused_with_its_field(content: bytes, message: str) -> None:
    with pytest.raises(MessageError, match=f"^{re.escape(message)}"):
        CODEC.decode(content)


@pytest.mark.parametrize(
    ("content", "number"),
    [(b'{"format":4,"kind":"part"}', 4), (b'{"format":2,"data":{}}', 2), (b'{"worker":3}', 1)],
    ids=["a later format", "an earlier format", "no number means 1"],
)
def test_another_format_is_refused(content: bytes, number: int) -> None:
    with pytest.raises(FormatError, match=f"^has format {number}; this version reads format 3$"):
        CODEC.decode(content)


@settings(deadline=None)
@given(value=MESSAGES, data=st.data())
def test_any_damage_is_a_message_error_or_a_value_of_the_same_types(
    value: Part | Whole | NothingInIt, data: st.DataObject
) -> None:
    content = CODEC.encode(value)
    at = data.draw(st.integers(0, len(content)))
    put = data.draw(st.binary(max_size=3))
    spoiled = content[:at] + put + content[at + data.draw(st.integers(0, 3)) :]
    try:
        found = CODEC.decode(spoiled)
    except MessageError:
        return
    assert type(found) in CODEC.kinds.values()
