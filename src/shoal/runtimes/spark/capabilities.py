"""What the Spark runtime can do; kept apart from Spark, which is slow to import."""

from shoal.runtimes.protocol import Capabilities
from shoal.runtimes.spark.driver.position import MECHANISMS

CAPABILITIES = Capabilities(
    name="spark",
    summary="Spark Structured Streaming: micro-batches on one machine or a cluster, exactly once after any crash",
    starting="starting Spark, about 10 s ...",
    mechanisms=MECHANISMS,
    lacks={
        "lazy-utility": "state lies in the checkpoint, not with the old worker, so that none has to be given up",
        "window-recreation": "state is not sent but read from the checkpoint, which costs less than to build it twice",
        "state-recreation": "as window-recreation; and no event waits for state between epochs",
        "checkpoint-assisted": "every worker reads the same checkpoint, so that a replica would be a second copy of it",
    },
    keeps_checkpoint=True,
    takes_dataframes=True,
    changes_queries=True,
)
