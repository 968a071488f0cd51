"""Watermarks: one per partition of a source, merged by minimum into that of the stream.

All marks of a run are one mapping, which plans and manifests keep. The watermark of a stream is under its name; the
keys below hold the processing clock, and what is known of streams and their partitions. A source that is one partition
needs no key of its own: its watermark is that of the stream.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.kernels.kernel import FOREVER_US, NEVER_US

if TYPE_CHECKING:
    from shoal.compiler.program import Input, Program

NOW = "#now"
"""Key of the processing clock."""
ENDED = "#ended:"
"""Prefix of the keys of streams that have ended."""
IDLE = "#idle:"
"""Prefix of the keys of streams with a limit of idleness: 1 if no watermark waits for the stream, else 0."""
_PARTITION = "#partition:"
"""Prefix of the keys of partitions that may have more rows, with their watermarks."""
_ACTIVE = "#active:"
"""Prefix of the keys of partitions with a limit of idleness: the processing time at which they had rows last."""
_MERGED = "#merged:"
"""Prefix of the keys of sets of streams: the largest watermark that any operator behind all of them has had."""

TICK_S = 1.0
"""The time without an epoch after which one runs without rows, if there is a reason."""


@dataclass(frozen=True)
class Reading:
    """What was read of one partition in one epoch, or between two advances of the watermark.

    `open`: the partitions of the stream that may have more rows after this epoch; None if the stream is one partition.
    `ended`: whether the stream has ended. `flush`: whether every window closes.
    """

    stream: str
    newest_us: int = NEVER_US
    partition: str = ""
    open: tuple[str, ...] | None = None
    ended: bool = False
    flush: bool = False


def partition_us(marks: Mapping[str, int], stream: str, partition: str) -> int:
    """The watermark of a partition: by it its rows are late, whatever the other partitions and streams have had."""
    return marks.get(_key(stream, partition), NEVER_US)


def merged_us(streams: Collection[str], marks: Mapping[str, int]) -> int:
    """The watermark behind some streams: the smallest of those that have neither ended nor are idle.

    When all have ended, no rows can follow and every window closes; operators that also wait for other streams still
    take its result. It never decreases: a stream that is no longer idle does not set it back.
    """
    running = [stream for stream in streams if ENDED + stream not in marks]
    if not running:
        return FOREVER_US if streams else NEVER_US
    awake = [stream for stream in running if not marks.get(IDLE + stream)] or running
    slowest = min(marks.get(stream, NEVER_US) for stream in awake)
    return slowest if len(streams) == 1 else max(slowest, marks.get(_merged_key(streams), NEVER_US))


def advanced(program: "Program", before: Mapping[str, int], readings: Iterable[Reading], now_us: int) -> dict[str, int]:
    """All marks after an epoch, from those before it and from what was read; `now_us` is its processing time."""
    after = {**before, NOW: max(before.get(NOW, NEVER_US), now_us)}
    read = list(readings)
    for stream, input_ in program.inputs.items():
        after = advanced_stream(input_, after, [each for each in read if each.stream == stream], now_us)
        if any(each.flush for each in read if each.stream == stream):
            after[stream] = after[NOW] = FOREVER_US
    for lane in program.lanes:
        if len(lane.streams) > 1 and any(IDLE + stream in after for stream in lane.streams):
            after[_merged_key(lane.streams)] = merged_us(lane.streams, after)
    return after


def advanced_stream(
    input_: "Input", before: Mapping[str, int], readings: Sequence[Reading], now_us: int
) -> dict[str, int]:
    """The marks of one stream after some of its rows, or after a time without any.

    1. A partition's watermark is its newest event time less the lateness of the stream.
    2. A stream of several partitions has the smallest of those that may have more rows; a partition that has had none
       yet holds it back. When none may have more rows, it is the largest.
    3. A partition without rows for the limit of idleness does not count, and a stream of idle partitions only is idle.
    """
    stream, after = input_.stream, dict(before)
    for each in readings:
        if each.newest_us > NEVER_US:
            key = _key(stream, each.partition)
            after[key] = max(after.get(key, NEVER_US), each.newest_us - input_.lateness_us)
            if input_.idle_us is not None:
                after[_ACTIVE + key] = now_us
        if each.ended:
            after[ENDED + stream] = 0
    if not readings and input_.idle_us is None:
        return after
    partitions, closed = _opened(stream, after, readings)
    idle = _idle(input_, after, partitions or [stream], now_us)
    holding = [after[key] for key in partitions if key not in idle]
    merged = min(holding, default=NEVER_US) if partitions else max(closed, default=NEVER_US)
    if merged > after.get(stream, NEVER_US):
        after[stream] = merged
    if input_.idle_us is not None:
        after[IDLE + stream] = int(len(idle) == len(partitions or [stream]))
    return after


def moves_with_time(program: "Program", marks: Mapping[str, int], *, holds_state: bool) -> bool:
    """Whether time without rows can change something: a stream may become idle, or a window by the clock may close."""
    running = [each for stream, each in program.inputs.items() if ENDED + stream not in marks]
    if any(each.idle_us is not None and not marks.get(IDLE + each.stream) for each in running):
        return True
    return holds_state and any(lane.processing for lane in program.lanes)


def _opened(stream: str, marks: dict[str, int], readings: Sequence[Reading]) -> tuple[list[str], list[int]]:
    """The keys of the partitions that may have more rows, and the watermarks of those that no longer may.

    The latter are removed from the marks.
    """
    prefix = _key(stream, ":")[:-1]
    known = [key for key in marks if key.startswith(prefix)]
    named = next((each.open for each in readings if each.open is not None), None)
    if named is None:
        return known, []
    opened = [_key(stream, partition) for partition in named]
    for key in opened:
        marks.setdefault(key, NEVER_US)
    closed = [marks.pop(key) for key in known if key not in set(opened)]
    return opened, closed


def _idle(input_: "Input", marks: dict[str, int], keys: Sequence[str], now_us: int) -> set[str]:
    """The keys of idle partitions; the time of one that has had no rows yet counts from now on."""
    if input_.idle_us is None:
        return set()
    limit_us = input_.idle_us
    return {key for key in keys if now_us - marks.setdefault(_ACTIVE + key, now_us) >= limit_us}


def _key(stream: str, partition: str) -> str:
    return f"{_PARTITION}{stream}:{partition}" if partition else stream


def _merged_key(streams: Collection[str]) -> str:
    return _MERGED + ",".join(sorted(streams))
