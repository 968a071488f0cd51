"""Every way to schedule local runs: a policy, or a design of queues."""

from collections.abc import Mapping
from typing import Any

from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.runtimes.local.scheduling.bound_pool import QUEUES
from shoal.runtimes.local.settings import NO_QUEUES

KINDS: Mapping[str, Mapping[str, Any]] = {
    **{policy: {"scheduling": policy, "queues": NO_QUEUES} for policy in SCHEDULING},
    **{design: {"queues": design} for design in QUEUES},
}
"""Settings by the name of the policy or design; policies say nothing where there are queues."""
