"""Lost state as the report of a move has it: the losses of all queries, and their sum."""

from collections.abc import Sequence

from shoal.mechanisms.shedding.report import Shed
from shoal.model.control.messages import LostState, QueryLoss


def lost_state(sheds: Sequence[Shed], of_utility: float) -> LostState:
    """What a move has lost; `of_utility`: that of all state that was to move, also of queries that lost nothing."""
    utility = sum(each.utility for each in sheds)
    return LostState(
        sum(each.fragments for each in sheds),
        sum(each.rows for each in sheds),
        sum(each.keys for each in sheds),
        sum(each.state_bytes for each in sheds),
        utility / of_utility if of_utility else 0.0,
        tuple(_query_loss(each) for each in sheds),
    )


def _query_loss(shed: Shed) -> QueryLoss:
    bounds = shed.bounds
    return QueryLoss(
        shed.query,
        shed.fragments,
        shed.rows,
        shed.keys,
        shed.state_bytes,
        1 - shed.utility_kept,
        bounds.results.most,
        {name: each.most for name, each in bounds.columns.items()},
    )
