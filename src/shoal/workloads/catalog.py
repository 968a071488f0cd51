"""The catalog: every workload by its name."""

from collections.abc import Mapping

from shoal.errors import ConfigError
from shoal.workloads.geo_pubsub.queries import GEO_PUBSUB
from shoal.workloads.linear_road.queries import LINEAR_ROAD
from shoal.workloads.mixed.queries import MIXED
from shoal.workloads.nexmark.queries import NEXMARK
from shoal.workloads.nyt.queries import NYT
from shoal.workloads.patterns.queries import BIKES, BUSES
from shoal.workloads.skew.queries import SKEW
from shoal.workloads.traffic.queries import TRAFFIC
from shoal.workloads.workload import Workload
from shoal.workloads.ysb.queries import YSB

_ALL = (TRAFFIC, YSB, NYT, LINEAR_ROAD, NEXMARK, BIKES, BUSES, MIXED, SKEW, GEO_PUBSUB)
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}


def workload(name: str) -> Workload:
    """A workload by name."""
    if name not in WORKLOADS:
        raise ConfigError(f"no workload is named {name!r}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
