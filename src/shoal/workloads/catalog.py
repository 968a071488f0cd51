"""The catalog: every workload by its name."""

from collections.abc import Mapping

from shoal.errors import ConfigError
from shoal.workloads.traffic import TRAFFIC
from shoal.workloads.workload import Workload
from shoal.workloads.ysb import YSB

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in (TRAFFIC, YSB)}


def workload(name: str) -> Workload:
    """A workload by name."""
    if name not in WORKLOADS:
        raise ConfigError(f"no workload is named {name!r}; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
