"""Settings of local runs: memory, queues and scheduling, by name as the command line gives them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, did_you_mean
from shoal.mechanisms.shedding.selection import selection_named
from shoal.policies.catalog import QUEUED, QUEUES_OF
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.runtimes.local.dataflow.result_buffer import SINK_BUFFER_BYTES
from shoal.runtimes.local.memory.blocks import MEMORIES, Sizes
from shoal.runtimes.local.migration.executor import MECHANISMS
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.scheduling.bound_pool import QUEUES
from shoal.runtimes.local.scheduling.cores import PINNINGS
from shoal.runtimes.setting_value import setting_value

MODES: Mapping[str, Mapping[str, str]] = {
    "TQ": {"scheduling": "threads", "memory": "queue"},
    "SQ": {"scheduling": "state-based", "memory": "queue"},
    "TM": {"scheduling": "threads", "memory": "block"},
    "SM": {"scheduling": "state-based", "memory": "block"},
}
"""Combinations of scheduling (threads or state-based) and memory (queue or block), for comparison."""
NO_QUEUES = "none"
CHOICES = {
    "scheduling": tuple(SCHEDULING),
    "memory": MEMORIES,
    "queues": (NO_QUEUES, *QUEUES),
    "pinning": PINNINGS,
}


@dataclass(frozen=True)
class LocalSettings:
    """How a local run uses its threads and memory.

    >>> LocalSettings.of({"block_rows": "4096", "queues": "worker-queue"}).block_rows
    4096
    >>> LocalSettings.of({"mode": "TQ"}).memory
    'queue'
    """

    scheduling: str = "state-based"
    memory: str = Sizes.memory
    queues: str = NO_QUEUES
    block_rows: int = Sizes.block_rows
    chunk_blocks: int = Sizes.chunk_blocks
    active_chunks: int = Sizes.active_chunks
    entry_rows: int = Sizes.entry_rows
    target_ms: float = Sizes.target_ms
    """The latency that blocks are sized for, where events come at a rate."""
    processor_nodes: int = 0
    """The number of groups of workers; 0 means the memory nodes of the machine."""
    most_workers: int = 0
    """The most workers during the run; 0 means the number of cores, or of initial workers if that is more."""
    pinning: str = PINNINGS[0]
    """Whether a worker's thread is pinned to a core, to the cores of a memory node, or not at all."""
    chained: bool = True
    """Whether consecutive operators without state run as one node."""
    fused: bool = True
    """Whether those that process all events of a stream are compiled into one loop."""
    sink_buffer_bytes: int = SINK_BUFFER_BYTES
    """Bytes of results that may wait for the sink before sources stop reading."""
    selection: str = "greedy"
    """Which state moves if a move has a limit: see docs/how-to/shed-state.md."""
    bytes_per_s: float = 0.0
    """The bandwidth by which moves with a deadline are limited; 0: none is given."""
    trace_results: bool = False
    """Whether all turns are recorded, so that `result_times` says where the time of results went; this takes time."""
    say: Callable[[str], None] | None = None
    """Called with messages about a slow start: loops that have to be compiled."""

    def __post_init__(self) -> None:
        """Reject unknown names and sizes below 1."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        _ = self.sizes  # rejects sizes below 1
        selection_named(self.selection)
        if not 0 <= self.bytes_per_s < float("inf"):
            raise ConfigError(f"bytes_per_s must be 0 or more; got {self.bytes_per_s}")
        for name, least in (("processor_nodes", 0), ("most_workers", 0), ("sink_buffer_bytes", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}; got {getattr(self, name)}")
        if self.queues != NO_QUEUES and self.scheduling == "threads":
            raise ConfigError("a thread per operator takes no turns from queues; leave queues or threads out")

    @property
    def sizes(self) -> Sizes:
        """The sizes of blocks and channels."""
        return Sizes(
            self.block_rows, self.chunk_blocks, self.active_chunks, self.memory, self.entry_rows, self.target_ms
        )

    def setup(self, sources: Mapping[str, Source], sink: Sink, mechanism: str | None = None) -> LocalSetup:
        """What the local runtime needs to run a job with these settings."""
        return LocalSetup(
            sources,
            sink,
            SCHEDULING[self.scheduling],
            self.sizes,
            chained=self.chained,
            fused=self.fused,
            queues=None if self.queues == NO_QUEUES else self.queues,
            processor_nodes=self.processor_nodes,
            mechanism=mechanism,
            most_workers=self.most_workers,
            pinning=self.pinning,
            sink_buffer_bytes=self.sink_buffer_bytes,
            say=self.say,
            selection=self.selection,
            bytes_per_s=self.bytes_per_s,
        )

    def bound(self, policy: str | None, most_workers: int) -> "LocalSettings":
        """These settings with the queues that a policy needs, and at least `most_workers`."""
        if policy is None and not most_workers:
            return self
        usual = policy if policy in QUEUED else QUEUES_OF.get(policy or "", "worker-queue")
        if policy in QUEUED and self.queues not in (NO_QUEUES, usual):
            raise ConfigError(f"policy {policy} goes with queues={usual}; got queues={self.queues}")
        queues = usual if self.queues == NO_QUEUES else self.queues
        return replace(self, queues=queues, most_workers=max(self.most_workers, most_workers))

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "LocalSettings":
        """Settings from texts; `mode` sets both scheduling and memory."""
        if "rebinding" in given:
            raise ConfigError(
                f"the local runtime has no setting 'rebinding'; choose a mechanism instead: {' or '.join(MECHANISMS)}"
            )
        known = {each.name: each.type for each in fields(cls) if each.name != "say"}
        mode = given.get("mode")
        if mode is not None and mode not in MODES:
            raise ConfigError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
        texts = {**(MODES[mode] if mode else {}), **{name: text for name, text in given.items() if name != "mode"}}
        for name in texts:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}, mode"
                raise ConfigError(f"the local runtime has no setting {name!r}{hint}")
        return cls(**{name: setting_value(name, text, known[name]) for name, text in texts.items()})
