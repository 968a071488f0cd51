"""The catalog of scheduling policies, by the names that the command line knows."""

from collections.abc import Mapping

from shoal.policies.scheduling.fcfs import Fcfs
from shoal.policies.scheduling.highest_rate import HighestRate
from shoal.policies.scheduling.min_cost import MinCost
from shoal.policies.scheduling.min_latency import MinLatency
from shoal.policies.scheduling.policy import SchedulingPolicy
from shoal.policies.scheduling.round_robin import RoundRobin
from shoal.policies.scheduling.state_based import StateBased
from shoal.policies.scheduling.threads import Threads

SCHEDULING: Mapping[str, SchedulingPolicy] = {
    "state-based": StateBased(),
    "fcfs": Fcfs(),
    "round-robin": RoundRobin(),
    "min-latency": MinLatency(),
    "min-cost": MinCost(),
    "highest-rate": HighestRate(),
    "threads": Threads(),
}
