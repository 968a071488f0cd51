"""`shoal experiment node`: a node of flows that are coordinated elsewhere."""

import time
from pathlib import Path

import click

from shoal.errors import RunError
from shoal.experiments.coordination.flow_trial import listening_address
from shoal.experiments.coordination.wire.node_service import NodeService
from shoal.experiments.coordination.wire.token import known_token

RETRY_S = 0.2


@click.command()
@click.option("--connect", required=True, metavar="HOST:PORT", help="Where the coordinator listens.")
@click.option("--id", "number", required=True, type=click.IntRange(1), help="The number of this node in the flow.")
@click.option("--token-file", metavar="FILE", help="The file with the token; else SHOAL_EXPERIMENT_TOKEN has it.")
@click.option("--directory", default=".", show_default=True, help="Where datasets are, and files are written.")
@click.option("--listen", "host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where it takes rows.")
@click.option("--wait-s", default=60.0, show_default=True, help="It ends when there is no coordinator for so long.")
def node(connect: str, number: int, token_file: str | None, directory: str, host: str, wait_s: float) -> None:
    """Do the tasks of one node, flow after flow, until there is no coordinator any more."""
    address, token = listening_address(connect), known_token(token_file)
    heard_s = time.monotonic()
    served = 0
    while True:
        try:
            service = NodeService(address, number, Path(directory).absolute(), token, host)
        except RunError:
            if time.monotonic() - heard_s < wait_s:
                time.sleep(RETRY_S)
                continue
            if not served:
                raise
            return
        service.serve()
        served += 1
        click.echo(f"node {number}: flow {served} is done", err=True)
        heard_s = time.monotonic()
