"""Geofences: points and the fences that contain them become events of objects that enter, stay and leave."""

from dataclasses import dataclass
from typing import Any

from shoal.errors import GraphError
from shoal.kernels.geofence import ENTERED, EVENT, HAPPENED
from shoal.language.python.flow import Flow
from shoal.language.python.spatial import RangeTerms, free_name, matching
from shoal.model.query.duration import Duration
from shoal.model.query.expression import col
from shoal.model.query.functions import Null
from shoal.model.query.schema import Field

SUFFIX = "_fence"


@dataclass(frozen=True)
class FenceTerms:
    """The columns of objects and fences, and how long a stay is."""

    object: str
    id: str
    action: str | None
    deleted: str
    dwell_s: Duration | None


def geofenced(points: Flow, fences: Flow, ranges: RangeTerms, terms: FenceTerms) -> Flow:
    """Events of objects and fences: the points, and those in fences, united and compared by object."""
    points.without_keys("geofence")
    points.check_key(terms.object, "geofence")
    found = matching(points, fences, ranges, terms.id, terms.action, terms.deleted)
    inner = terms.id + SUFFIX if terms.id in points.schema else terms.id
    fence = terms.id if terms.id != terms.object else inner
    times = [name for name in (points.time,) if name in points.schema]
    kept = list(dict.fromkeys((*times, terms.object)))
    there = points.cover(ranges.grid, ranges.point, column=free_name("cell", points.schema.names))
    somewhere = there.select(*kept, **{fence: Null(found.schema.type_of(inner))})
    inside = found.select(*kept, **{fence: col(inner)})
    both = somewhere.union(inside).key_by(terms.object)
    if ranges.partitions > 1:
        both = both.partition_by(terms.object, groups=ranges.partitions)
    dwell_us = None if terms.dwell_s is None else points.duration_us(terms.dwell_s, "geofence")
    return fence_events(both, fence, dwell_us)


def fence_events(flow: Flow, fence: Any, dwell_us: int | None) -> Flow:
    """A keyed flow of objects in fences, followed by the operator that compares each time with the one before."""
    flow.not_inside_window("geofence")
    flow.check_time("geofence")
    where = flow.location("geofence")
    if not flow.keys:
        raise GraphError(f"{where} needs key_by or partition_by before it: the object")
    if fence in flow.keys:
        raise GraphError(f"{where} needs an object and a fence; got {fence!r} for both")
    flow.check_key(fence, "geofence")
    if dwell_us is not None and (type(dwell_us) is not int or dwell_us < 1):
        raise GraphError(f"{where} needs a positive time to dwell; got {dwell_us!r}")
    fields = [flow.schema.field(key) for key in flow.keys]
    fields += [Field(fence, flow.schema.type_of(fence), nullable=False), Field(EVENT, "string", nullable=False)]
    fields += [Field(name, "timestamp", nullable=False) for name in (HAPPENED, ENTERED)]
    parameters = {"fence": fence, "dwell_us": dwell_us, **flow.grouped()}
    return flow.then("geofence", parameters, flow.made_of(tuple(fields), "geofence")).fresh()
