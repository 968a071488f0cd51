"""Pace: the events of a job at another rate, for runs that are measured."""

from collections.abc import Mapping
from dataclasses import replace

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source


def paced(sources: Mapping[str, Source], rate: float | None, most: float) -> dict[str, Source]:
    """The same sources with a rate of all generated events per second, and at most so many events.

    Without a rate they are read as fast as possible. Sources keep their shares of both. Files have no rate, and
    generators without an end keep theirs.
    """
    limited = [each for each in sources.values() if isinstance(each, Generator) and each.events is not None]
    total = max(1, sum(each.events or 0 for each in limited))
    share = min(1.0, most / total)
    found = dict(sources)
    for name, each in sources.items():
        if isinstance(each, Generator) and each.events is not None:
            own = None if rate is None else max(1.0, rate * each.events / total)
            found[name] = replace(each, rate=own, events=max(1, int(each.events * share)))
    return found
