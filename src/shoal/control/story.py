"""The story of a run: its journal as text."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from shoal.control.effects.host_entries import HostChoice, HostOption, HostsMeasured
from shoal.control.journal import (
    Aborted,
    Advised,
    Begun,
    Decided,
    Divided,
    DivisionMeasured,
    Ended,
    Entry,
    Kept,
    Left,
    Lost,
    Mapped,
    Measured,
    MechanismCost,
    Migrated,
    Moving,
    Parked,
    Refused,
    Rejected,
    Scaled,
    SheddingBegun,
    SheddingEnded,
)
from shoal.control.names import readable, readable_bytes
from shoal.control.partitions.rebalance_entries import Rebalanced, RebalanceMeasured
from shoal.model.control.messages import QueryLoss

NAMED_MOVES = 3
"""Moves of a decision that are listed by default."""


def story_lines(entries: Iterable[Entry], *, every_move: bool = False) -> Iterator[str]:
    """One or more lines for every entry; times count from the beginning of the run."""
    began_s = None
    for entry in entries:
        if isinstance(entry, Mapped):  # what `shoal map` draws
            continue
        if isinstance(entry, Begun):
            began_s = entry.at_s
            yield _begun(entry)
            continue
        began_s = entry.at_s if began_s is None else began_s
        lines = _lines(entry, None if every_move else NAMED_MOVES)
        yield f"{entry.at_s - began_s:9.2f} s  {lines[0]}"
        yield from (f"{'':13}{line}" for line in lines[1:])


def _begun(entry: Begun) -> str:
    when = datetime.fromtimestamp(entry.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    when = "simulated time from 0 s" if entry.simulated_time else when
    settings = "".join(f", {name} {value}" for name, value in entry.settings.items())
    return (
        f"{when}: {entry.job} began on {entry.runtime} with policy {entry.policy}: "
        f"{entry.instances:,} instances on {_number(entry.workers, 'worker')}{settings}"
    )


def _lines(entry: Entry, most: int | None) -> list[str]:
    if isinstance(entry, Decided | Advised):
        return _decided(entry, most) if isinstance(entry, Decided) else _advised(entry, most)
    if isinstance(entry, Kept | Migrated):
        return _kept(entry, most) if isinstance(entry, Kept) else _migrated(entry)
    if isinstance(entry, Measured | HostsMeasured | Aborted):
        return [_after_moves(entry)]
    if isinstance(entry, Scaled | SheddingBegun | SheddingEnded):
        return [_scaled(entry) if isinstance(entry, Scaled) else _shedding(entry)]
    if isinstance(entry, Divided | DivisionMeasured):
        return [_divided(entry)]
    if isinstance(entry, Rebalanced | RebalanceMeasured):
        return _rebalanced(entry)
    if isinstance(entry, Lost | Left):
        return [_lost(entry) if isinstance(entry, Lost) else _left(entry)]
    if isinstance(entry, Refused | Rejected | Parked | Ended):
        return [_ended(entry) if isinstance(entry, Ended) else _not_done(entry)]
    raise TypeError(f"no story line for {entry!r}")


def _decided(entry: Decided, most: int | None) -> list[str]:
    first = (
        f"decision {entry.number}: {_number(entry.moved, 'instance')} moved"
        f"{f' with {readable_bytes(entry.moved_bytes)} of state' if entry.moved_bytes else ''}, since {entry.trigger}"
    )
    expected = (
        f"expected by {entry.policy}: the busiest worker goes from {entry.peak_before:.2f} "
        f"to {entry.peak_expected:.2f} times the mean"
    )
    if entry.goal:
        amounts = f"from {entry.goal_before:.3g} to {entry.goal_expected:.3g}"
        expected = f"expected by {entry.policy}: {entry.goal} goes {amounts}"
    made = [move for move in entry.moves if not move.refused]
    left_out = [move for move in entry.moves if move.refused]
    refusals = _refusals(left_out, entry.stayed, most)
    return [first, expected, *_moves(made, entry.moved, most), *_hosts(entry.hosts, most), *refusals]


def _hosts(choices: Sequence[HostChoice], most: int | None) -> list[str]:
    """Which instances go to other hosts than the policy proposed, or stay, and what the twin expected of each."""
    lines = []
    for choice in choices[:most]:
        chosen, state = choice.options[0], readable_bytes(choice.state_bytes)
        stays = chosen.worker == choice.source
        lines.append(
            f"  the twin {'keeps' if stays else 'sends'} {choice.name} with {state} {'on' if stays else 'to'} worker "
            f"{chosen.worker} of {chosen.host} rather than send it to worker {choice.proposed}, as proposed"
        )
        lines += [f"    {_host_option(each)}" for each in choice.options]
    left = len(choices) - len(choices[:most])
    return [*lines, *([f"  and {left:,} more"] if left else [])]


def _host_option(option: HostOption) -> str:
    if not option.mechanism:
        return f"worker {option.worker} of {option.host}: stays, P {option.score:.2f}, B {option.benefit:.2f}"
    later = f" in {readable(option.wait_s)}" if option.wait_s else ""
    return (
        f"worker {option.worker} of {option.host}{later}: {readable(option.seconds)} by {option.mechanism}, "
        f"P {option.score:.2f}, C {option.cost:.2%}, B {option.benefit:.2f}"
    )


def _hosts_measured(entry: HostsMeasured) -> str:
    parts = [
        f"{what} {readable(found)}, where the twin expected {readable(expected)}"
        for what, found, expected in (
            ("frozen for at most", entry.frozen_s, entry.frozen_expected_s),
            ("done after", entry.seconds, entry.seconds_expected),
        )
        if found is not None
    ]
    return f"{_number(entry.moved, 'instance')} moved by {entry.mechanism}: {'; '.join(parts)}"


def _kept(entry: Kept, most: int | None) -> list[str]:
    if entry.times != 1:
        return [f"the same outcome {entry.times:,} more times: {entry.reason}"]
    refused = [move for move in entry.moves if move.refused]
    first = f"nothing moved, though {entry.trigger}: {entry.reason}"
    return [first, *_hosts(entry.hosts, most), *_refusals(refused, len(refused), most)]


def _measured(entry: Measured) -> str:
    promised, brought = entry.peak_before - entry.peak_expected, entry.peak_before - entry.peak_after
    if entry.goal:
        promised, brought = entry.goal_before - entry.goal_expected, entry.goal_before - entry.goal_after
    kept = f"{brought / promised:.0%} of what was expected" if promised > 0 else "nothing was expected"
    text = (
        f"decision {entry.number} brought the busiest worker from {entry.peak_before:.2f} "
        f"to {entry.peak_after:.2f} times the mean ({kept})"
    )
    if entry.goal:
        amounts = f"from {entry.goal_before:.3g} to {entry.goal_after:.3g}"
        text = f"decision {entry.number} brought {entry.goal} {amounts} ({kept})"
    if entry.latency_before_s and entry.latency_after_s:
        text += f", the slowest latency from {readable(entry.latency_before_s)} to {readable(entry.latency_after_s)}"
    return text + (f"; the next decision waits {entry.rest_s:g} s" if brought < promised / 4 else "")


def _advised(entry: Advised, most: int | None) -> list[str]:
    """The chosen mechanism, and what each would cost."""
    shown = entry.candidates if most is None else entry.candidates[: most + 1]
    left = len(entry.candidates) - len(shown)
    moved = f"{_number(entry.moved, 'instance')} with {readable_bytes(entry.moved_bytes)} of state"
    first = f"the twin chose mechanism {entry.mechanism} for {moved}{f', {entry.moment}' if entry.moment else ''}"
    return [first, *(f"  {_mechanism_cost(each)}" for each in shown), *([f"  and {left:,} more"] if left else [])]


def _mechanism_cost(entry: MechanismCost) -> str:
    if entry.cost is None:
        return f"{entry.mechanism} is not possible: {entry.refused}"
    figures = (
        f"{entry.mechanism}: frozen for {readable(entry.frozen_s)}, done after {readable(entry.seconds)}, in sum "
        f"events wait {entry.latency_s:.3g} s and results {entry.emission_s:.3g} s, "
        f"{readable_bytes(entry.sent_bytes)} sent"
    )
    lost = f", {entry.lost:.1%} of the state lost" if entry.lost else ""
    return figures + lost + f"; cost {entry.cost:.3g}" + (f": {entry.refused}" if entry.refused else "")


def _after_moves(entry: Measured | HostsMeasured | Aborted) -> str:
    if isinstance(entry, Aborted):
        return _aborted(entry)
    return _measured(entry) if isinstance(entry, Measured) else _hosts_measured(entry)


def _aborted(entry: Aborted) -> str:
    every = entry.made + entry.given_up
    return f"decision {entry.number} was given up after {entry.made:,} of {_number(every, 'move')}: {entry.reason}"


def _migrated(entry: Migrated) -> list[str]:
    """What moves cost, as far as it was measured, and a line for every query that lost state."""
    metrics = entry.metrics
    took = f" in {readable(metrics.seconds)}" if metrics.seconds is not None else ""
    by = f" by {entry.mechanism}" if entry.mechanism else ""
    parts = [f"{_number(entry.moved, 'instance')} moved{took}{by}, with {readable_bytes(metrics.state_bytes)} of state"]
    if metrics.frozen_s is not None:
        parts.append(f"frozen for at most {readable(metrics.frozen_s)}")
    if metrics.latency_spike_s is not None and metrics.output_latency_mean_s is not None:
        mean_s = metrics.output_latency_mean_s
        each = f"{readable(abs(mean_s))} {'more' if mean_s >= 0 else 'less'} for each result"
        parts.append(f"latency up to {readable(metrics.latency_spike_s)} over the median before, {each}")
    if metrics.late_results and metrics.emission_delay_s is not None:
        parts.append(f"{_number(metrics.late_results, 'result')} late by up to {readable(metrics.emission_delay_s)}")
    if metrics.utility_kept is not None and metrics.utility_kept < 1:
        parts.append(f"{metrics.utility_kept:.1%} of the utility of the state arrived")
    if entry.given_up:
        parts.append(f"{_number(entry.given_up, 'move')} given up")
    notes = [f"  {note}" for note in entry.notes]
    return ["; ".join(parts), *notes, *(f"  {loss_text(each)}" for each in entry.lost)]


def loss_text(loss: QueryLoss) -> str:
    """What a query has lost with state that moved, in words."""
    most = loss.most_results
    known = f"at most {most:,.0f} results are missing or different" if most is not None else "any result may be wrong"
    return (
        f"query {loss.query!r} lost {_number(loss.rows, 'row')} of {_number(loss.keys, 'key')} "
        f"({readable_bytes(loss.state_bytes)}, {loss.share:.1%} of the utility): {known}"
    )


def _divided(entry: Divided | DivisionMeasured) -> str:
    if isinstance(entry, DivisionMeasured):
        return (
            f"{entry.change} of {entry.name}: its largest part has {entry.shares_after:.2f} of a worker's share, "
            f"against {entry.shares_before:.2f} before"
        )
    if entry.change == "merge":
        return f"merged {entry.parts} parts of {entry.name}, since together they had {entry.shares:.2f} of a share"
    return f"split {entry.name} into {entry.parts} parts, since it alone had {entry.shares:.2f} of a worker's share"


def _rebalanced(entry: Rebalanced | RebalanceMeasured) -> list[str]:
    """What was done to the partitions of the plane, and the costs by which it was decided."""
    if isinstance(entry, RebalanceMeasured):
        return [_rebalance_measured(entry)]
    several = _number(len(entry.instances), "partition")
    if entry.change == "grid":
        return [f"{entry.policy} divided the plane into {several}, one for each worker"]
    if entry.change == "merge":
        return [f"{entry.policy} merged {several} of the same workers: {', '.join(entry.instances)}"]
    if entry.change == "history":
        first = f"{entry.policy} divided the plane by a sample; {several} on another worker"
        return [first, f"expected: {_costs('the costliest worker', 'the cheapest', entry)}"]
    what = ", ".join(entry.instances)
    done = f"moved {what}" if entry.change == "move" else f"split {what} {entry.where} and moved one part"
    first = f"{entry.policy} {done} from worker {entry.source} to {entry.target}"
    return [first, f"expected: {_costs(f'worker {entry.source}', f'worker {entry.target}', entry)}"]


def _costs(source: str, target: str, entry: Rebalanced) -> str:
    return (
        f"the cost of {source} goes from {entry.cost_source:.4g} to {entry.expected_source:.4g}, "
        f"that of {target} from {entry.cost_target:.4g} to {entry.expected_target:.4g}"
    )


def _rebalance_measured(entry: RebalanceMeasured) -> str:
    return (
        f"a round after the {entry.change}, the cost of worker {entry.source} is {entry.source_after:.4g}, against "
        f"{entry.source_before:.4g} before, and that of worker {entry.target} {entry.target_after:.4g}, against "
        f"{entry.target_before:.4g}"
    )


def _lost(entry: Lost) -> str:
    workers = ", ".join(map(str, entry.workers))
    return f"lost worker {workers}: {entry.reason}; {_number(entry.moved, 'instance')} bound elsewhere"


def _left(entry: Left) -> str:
    left = (
        f"{_number(entry.moved, 'instance')} left {', '.join(entry.hosts)} "
        f"with {readable_bytes(entry.moved_bytes)} of state, since {entry.trigger}; "
        f"the transfer takes about {readable(entry.transfer_s)}"
    )
    stayed = f"{_number(entry.stayed, 'instance')} stayed on {', '.join(entry.hosts)}"
    if not entry.moved:
        return f"{stayed}, though {entry.trigger}: {entry.reason}"
    short = f"; {stayed}: {entry.reason}" if entry.stayed else f"; {entry.reason}" if entry.reason else ""
    useful = f" (first {', '.join(entry.first)}; about {entry.kept:.0%} of the utility)" if entry.first else ""
    return left + short + useful


def _scaled(entry: Scaled) -> str:
    return (
        f"from {_number(entry.workers, 'worker')} to {entry.wanted}, since {entry.reason}; "
        f"{_number(entry.moved, 'instance')} moved"
    )


def _not_done(entry: Refused | Rejected | Parked) -> str:
    if isinstance(entry, Refused):
        return f"the runtime refused to {entry.command.lower()}: {entry.reason}"
    if isinstance(entry, Rejected):
        return f"set file {entry.file} aside: {entry.reason}"
    names = f"query {entry.queries[0]!r}" if len(entry.queries) == 1 else f"queries {', '.join(entry.queries)}"
    return f"parked {names}, since {entry.reason}" + (f"; row: {entry.row}" if entry.row else "")


def _shedding(entry: SheddingBegun | SheddingEnded) -> str:
    if isinstance(entry, SheddingBegun):
        return f"shed input ({entry.shedding}), since {entry.reason}"
    return f"shed no more input, since {entry.reason}; {_number(entry.rows, 'row')} shed in {readable(entry.lasted_s)}"


def _moves(moves: Sequence[Moving], number: int, most: int | None) -> list[str]:
    shown = moves[:most]
    lines = []
    for move in shown:
        lines.append(
            f"  {move.name} from worker {move.source} to {move.target}: score {move.score_here:.2f} here, "
            f"{move.score_there:.2f} there; the move costs {move.cost:.2%}, to be paid within "
            f"{move.amortisation_s:.3g} s"
        )
        lines += _candidates(move, most)
    return lines + ([f"  and {number - len(shown):,} more"] if number > len(shown) else [])


def _refusals(moves: Sequence[Moving], number: int, most: int | None) -> list[str]:
    shown = moves[:most]
    lines = []
    for move in shown:
        lines.append(f"  {move.name} stayed on worker {move.source} rather than go to {move.target}: {move.refused}")
        lines += _candidates(move, most)
    return lines + ([f"  and {number - len(shown):,} more stayed"] if number > len(shown) else [])


def _candidates(move: Moving, most: int | None) -> list[str]:
    """Every worker that was a candidate, with score P, cost C, amortisation time at and benefit B = P (1 - C)."""
    lines = []
    for each in move.candidates if most is None else move.candidates[: most + 1]:
        role = "stays" if each.worker == move.source else "goes" if each.worker == move.target else "could go"
        where = f"worker {each.worker}" + (f" of {each.host}" if each.host else "")
        terms = f", C {each.cost:.2%}, at {each.amortisation_s:.3g} s" if each.worker != move.source else ""
        lines.append(f"    {role}: {where}: P {each.score:.2f}{terms}, B {each.benefit:.2f}")
    left = len(move.candidates) - len(lines)
    return [*lines, *([f"    and {_number(left, 'more candidate')}"] if left else [])]


def _ended(entry: Ended) -> str:
    shares = ", ".join(f"{name} {share:.2%}" for name, share in entry.cost_share.items())
    how = f"ended by an error: {entry.error}" if entry.error else "ended"
    return (
        f"{how} after {entry.events:,} events in {_number(entry.epochs, 'epoch')}, "
        f"{_number(entry.moves, 'move')}, {readable_bytes(entry.state_bytes_moved)} of state; time: {shares}"
    )


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
