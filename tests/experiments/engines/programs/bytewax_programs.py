"""The queries of the conformance list for Bytewax."""

from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.operators import windowing as win

Row = dict[str, Any]
TEN_SECONDS = timedelta(seconds=10)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def passthrough(streams: Any, clock: Any) -> Any:
    """Every car."""
    return streams["cars"]


def projection(streams: Any, clock: Any) -> Any:
    """Other units."""
    return op.map("units", streams["cars"], _units)


def _units(row: Row) -> Row:
    speed = row["speed"]
    return {"ts": row["ts"], "next_road": row["road"] + 1, "ms": None if speed is None else speed / 3.6}


def fast(streams: Any, clock: Any) -> Any:
    """Cars that are fast."""
    chosen = op.filter("fast", streams["cars"], lambda row: row["speed"] is not None and row["speed"] > 50)
    return op.map("columns", chosen, lambda row: {name: row[name] for name in ("ts", "road", "speed")})


def window(streams: Any, clock: Any) -> Any:
    """Number and mean speed of the cars of every road, every ten seconds."""
    keyed = op.key_on("road", streams["cars"], lambda row: str(row["road"]))
    tumbling = win.TumblingWindower(align_to=EPOCH, length=TEN_SECONDS)
    found = win.collect_window("collect", keyed, clock("ts"), tumbling)
    return op.map("mean", found.down, _mean)


def _mean(keyed: tuple[str, tuple[int, list[Row]]]) -> Row:
    road, (number, rows) = keyed
    speeds = [row["speed"] for row in rows if row["speed"] is not None]
    return {
        "road": int(road),
        "window_end": EPOCH + (number + 1) * TEN_SECONDS,
        "n": len(rows),
        "mean_speed": sum(speeds) / len(speeds) if speeds else None,
    }


def join(streams: Any, clock: Any) -> Any:
    """Cars and the tolls of their road within two seconds."""
    cars = op.map("cars", streams["cars"], lambda row: (str(row["road"]), ("car", row)))
    tolls = op.map("tolls", streams["tolls"], lambda row: (str(row["gate"]), ("toll", row)))
    return op.flat_map("rows", op.stateful_flat_map("pairs", op.merge("both", cars, tolls), _paired), _joined)


def _paired(state: dict[str, list[Row]] | None, item: tuple[str, Row]) -> tuple[Any, list[tuple[Row, Row]]]:
    """Pairs of a new row and those of the other kind; inputs come in any order, so nothing is forgotten."""
    state = state or {"car": [], "toll": []}
    kind, row = item
    state[kind].append(row)
    others = state["toll" if kind == "car" else "car"]
    return state, [(row, other) if kind == "car" else (other, row) for other in others]


def _joined(keyed: tuple[str, tuple[Row, Row]]) -> list[Row]:
    car, toll = keyed[1]
    if abs(car["ts"] - toll["ts"]) > timedelta(seconds=2):
        return []
    return [{"road": car["road"], "kind": car["kind"], "price": toll["price"]}]
