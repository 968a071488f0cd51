"""Move operators between workers while the stream runs, and see that no result changes.

The same job runs twice. The first run keeps its binding. In the second run the instances are bound again after each
of the first epochs, and the number of workers goes from two to four and down to one. Both runs give the same rows.
"""

from shoal import Binding, Generator, Job, Run, Stream, count, hop, mean, start
from shoal.model.control.messages import EpochCommitted
from shoal.session.digest import result_digest
from shoal.workloads.traffic.events import TrafficEvents

WORKERS = (4, 3, 1, 2)

vehicles = Stream("vehicles", {"ts": "timestamp", "region": "int64", "speed": "float64"}, time="ts")
query = (
    vehicles.partition_by("region", groups=20)
    .window(hop(10, 1))
    .aggregate(speed=mean("speed"), vehicles=count())
    .sink("regions")
)
source = Generator(TrafficEvents(vehicles=2_000, regions=20), events=12_000, rows_per_epoch=2_000)
job = Job.of("rebind", [query], {"vehicles": source})


def everything_elsewhere(run: Run, done: EpochCommitted) -> None:
    """Called after every epoch: bind every instance to another worker from the next epoch on."""
    moved = f"{done.moves} moves, {done.state_bytes_moved} bytes of state"
    print(f"epoch {done.epoch}: workers {done.snapshot.binding.workers}, {moved}")
    if done.epoch < len(WORKERS):
        workers = WORKERS[done.epoch]
        elsewhere = {instance: (k + done.epoch) % workers for k, instance in enumerate(job.graph.stateful_instances)}
        run.rebind(Binding.of(elsewhere, workers))


calm = start(job, workers=2)
calm.wait()
moving = start(job, workers=2)
moving.wait(everything_elsewhere)

digests = [result_digest({"regions": run.sink.table("regions")}) for run in (calm, moving)]
print("same results" if digests[0] == digests[1] else "different results")
