"""What is checked before a run starts: settings and parameters that the runtime does not support."""

from collections.abc import Mapping

from shoal.control.twin.adviser import AUTO
from shoal.errors import ConfigError
from shoal.mechanisms.catalog import mechanism_named
from shoal.policies.catalog import NEED_HOSTS, QUEUED, check_policy
from shoal.runtimes.protocol import Capabilities, RuntimeKind
from shoal.runtimes.registry import runtimes_that


def settings_of(kind: RuntimeKind, conf: Mapping[str, str], topology: str | None) -> Mapping[str, str]:
    """The settings of the runtime, with the topology as one of them."""
    if topology is None:
        return conf
    if "topology" not in kind.capabilities.options:
        able = runtimes_that(lambda can: "topology" in can.options)
        raise ConfigError(f"a topology is for runtime {able}; the machine of runtime {kind.capabilities.name} is real")
    if conf.get("topology", topology) != topology:
        raise ConfigError(f"there must be one topology; got {topology} and, as a setting, {conf['topology']}")
    return {**conf, "topology": topology}


def check(capabilities: Capabilities, workers: int, policy: str | None, mechanism: str | None) -> None:
    """Reject parameters that the runtime does not support."""
    on = capabilities.name
    if workers < 1:
        raise ConfigError(f"number of workers must be at least 1; got {workers}")
    if policy is not None:
        check_policy(policy)
    if policy in QUEUED and not capabilities.shares_queues:
        able = runtimes_that(lambda can: can.shares_queues)
        raise ConfigError(f"policy {policy} is for runtime {able}; workers of runtime {on} share no queue")
    if policy in NEED_HOSTS and not capabilities.knows_hosts:
        able = runtimes_that(lambda can: can.knows_hosts)
        raise ConfigError(f"policy {policy} is for runtime {able}; runtime {on} does not know its hosts and links")
    if mechanism == AUTO and not capabilities.mechanisms:
        raise ConfigError(f"mechanism {AUTO} chooses among those of the runtime; runtime {on} has none")
    if mechanism not in (None, AUTO):
        mechanism_named(mechanism, capabilities.mechanisms, f"runtime {on}")
