"""The arrays of a world by their addresses, as compiled functions get them.

Numba passes every array by value and counts the references to it. With the two dozen arrays of a world that took most
of the time: 3 us per task. So a world is handed on as one array, of the address and the length of every array, and each
function opens those that it needs.
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import arrays as a

_I, _F = np.int64, np.float64


@intrinsic
def _as_pointer(_: Any, address: Any) -> Any:
    """An address as a pointer."""

    def code(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), code


_pointer: Any = _as_pointer
_carray: Any = numba.carray  # type: ignore[attr-defined]


def addresses(world: a.World) -> NDArray[np.int64]:
    """The address and length of all arrays of a world, which must outlive them."""
    for array in world:
        if not array.flags.c_contiguous:
            raise ValueError("arrays of a world must be contiguous")
    return np.array([number for array in world for number in (array.ctypes.data, len(array))])


@compiled
def core(world: Any) -> Any:
    """See `World.core`."""
    return _carray(_pointer(world[0]), (world[1],), a.CORE)


@compiled
def tasks(world: Any) -> Any:
    """See `World.tasks`."""
    return _carray(_pointer(world[2]), (world[3],), a.TASK)


@compiled
def units(world: Any) -> Any:
    """See `World.units`."""
    return _carray(_pointer(world[4]), (world[5],), a.UNIT)


@compiled
def unit_tasks(world: Any) -> Any:
    """See `World.unit_tasks`."""
    return _carray(_pointer(world[6]), (world[7],), _I)


@compiled
def workers(world: Any) -> Any:
    """See `World.workers`."""
    return _carray(_pointer(world[8]), (world[9],), a.WORKER)


@compiled
def hosts(world: Any) -> Any:
    """See `World.hosts`."""
    return _carray(_pointer(world[10]), (world[11],), a.HOST_STATE)


@compiled
def node_host(world: Any) -> Any:
    """See `World.node_host`."""
    return _carray(_pointer(world[12]), (world[13],), _I)


@compiled
def sources(world: Any) -> Any:
    """See `World.sources`."""
    return _carray(_pointer(world[14]), (world[15],), a.SOURCE)


@compiled
def outputs(world: Any) -> Any:
    """See `World.outputs`."""
    return _carray(_pointer(world[16]), (world[17],), _I)


@compiled
def inputs(world: Any) -> Any:
    """See `World.inputs`."""
    return _carray(_pointer(world[18]), (world[19],), _I)


@compiled
def steps(world: Any) -> Any:
    """See `World.steps`."""
    return _carray(_pointer(world[20]), (world[21],), a.STEP)


@compiled
def cells(world: Any) -> Any:
    """See `World.cells`."""
    return _carray(_pointer(world[22]), (world[23], world[3]), a.CELL)


@compiled
def queues(world: Any) -> Any:
    """See `World.queues`."""
    return _carray(_pointer(world[24]), (world[25],), a.QUEUE)


@compiled
def agenda_times(world: Any) -> Any:
    """See `World.agenda_times`."""
    return _carray(_pointer(world[26]), (world[27],), _F)


@compiled
def agenda_rows(world: Any) -> Any:
    """See `World.agenda_rows`."""
    return _carray(_pointer(world[28]), (world[29], 4), _I)


@compiled
def links(world: Any) -> Any:
    """See `World.links`."""
    return _carray(_pointer(world[30]), (world[31],), a.LINK_STATE)


@compiled
def dirty(world: Any) -> Any:
    """See `World.dirty`."""
    return _carray(_pointer(world[32]), (world[33],), _I)


@compiled
def flows(world: Any) -> Any:
    """See `World.flows`."""
    return _carray(_pointer(world[34]), (world[35],), a.FLOW_STATE)


@compiled
def hops(world: Any) -> Any:
    """See `World.hops`."""
    return _carray(_pointer(world[36]), (world[37], core(world)[0].hops), _I)


@compiled
def after(world: Any) -> Any:
    """See `World.after`."""
    return _carray(_pointer(world[38]), (world[39], core(world)[0].hops), _I)


@compiled
def before(world: Any) -> Any:
    """See `World.before`."""
    return _carray(_pointer(world[40]), (world[41], core(world)[0].hops), _I)


@compiled
def route_start(world: Any) -> Any:
    """See `World.route_start`."""
    return _carray(_pointer(world[42]), (world[43],), _I)


@compiled
def route_link(world: Any) -> Any:
    """See `World.route_link`."""
    return _carray(_pointer(world[44]), (world[45],), _I)


@compiled
def crowd(world: Any) -> Any:
    """See `World.crowd`."""
    return _carray(_pointer(world[46]), (world[47],), _F)


@compiled
def results(world: Any) -> Any:
    """See `World.results`."""
    return _carray(_pointer(world[48]), (world[49],), a.RESULT)


@compiled
def moves(world: Any) -> Any:
    """See `World.moves`."""
    return _carray(_pointer(world[50]), (world[51],), a.MOVE)


@compiled
def turns(world: Any) -> Any:
    """See `World.turns`."""
    return _carray(_pointer(world[52]), (world[53],), a.TURN)


@compiled
def wakes(world: Any) -> Any:
    """See `World.wakes`."""
    return _carray(_pointer(world[54]), (world[55],), _I)


@compiled
def turn_crowd(world: Any) -> Any:
    """See `World.turn_crowd`."""
    return _carray(_pointer(world[56]), (world[57],), _F)


@compiled
def wake_ups(world: Any) -> Any:
    """See `World.wake_ups`, row behind row."""
    return _carray(_pointer(world[58]), (world[59],), _F)


@compiled
def trace(world: Any) -> Any:
    """See `World.trace`."""
    return _carray(_pointer(world[60]), (world[61],), a.TRACED)


@compiled
def long_crowd(world: Any) -> Any:
    """See `World.long_crowd`."""
    return _carray(_pointer(world[62]), (world[63],), _F)


@compiled
def pauses(world: Any) -> Any:
    """See `World.pauses`, row behind row."""
    return _carray(_pointer(world[64]), (world[65],), _F)
