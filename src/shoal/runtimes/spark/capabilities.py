"""What the Spark runtime can do; kept apart from Spark, which is slow to import."""

from shoal.runtimes.protocol import Capabilities
from shoal.runtimes.spark.driver.position import MECHANISMS

CAPABILITIES = Capabilities(
    name="spark",
    summary="Spark Structured Streaming: micro-batches on one machine or a cluster, exactly once after any crash",
    starting="starting Spark, about 10 s ...",
    mechanisms=MECHANISMS,
    keeps_checkpoint=True,
    takes_dataframes=True,
    changes_queries=True,
)
