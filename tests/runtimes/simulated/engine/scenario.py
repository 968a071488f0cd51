"""Random scenarios for the simulator's engine: tasks, a machine, input, moves and outages."""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from hypothesis import strategies as st

from shoal.runtimes.simulated.engine.simulation import Simulation, StepInput
from shoal.runtimes.simulated.engine.world import NO_LIMIT, ORDERS, QUEUES, Rules, Tasks
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import Machine


class Script:
    """What sources read: given steps, one after another."""

    def __init__(self, steps: list[list[tuple[float, StepInput]]]) -> None:
        self._steps = [list(each) for each in steps]
        self.arrivals: list[float] = []

    def read(self, source: int, now_s: float) -> tuple[StepInput | None, float]:
        steps = self._steps[source]
        if not steps:
            return None, inf
        wait_s, step = steps.pop(0)
        arrived = replace(step, arrival_s=now_s - step.arrival_s)
        again_s = now_s + wait_s if steps else inf
        if not step.rows:
            return None, again_s
        self.arrivals.append(arrived.arrival_s)
        return arrived, again_s


@dataclass(frozen=True)
class Scenario:
    """All that a simulation needs, and what happens to it."""

    tasks: Tasks
    machine: Machine
    owner: list[int]
    cores: list[int]
    rules: Rules
    ranks: list[float]
    state_bytes: list[float]
    steps: list[list[tuple[float, StepInput]]]
    moves: list[tuple[float, int, int]]

    @property
    def number_of_steps(self) -> int:
        return sum(step.rows > 0 for steps in self.steps for _, step in steps)

    def simulation(self, room: int | None = None) -> Simulation:
        simulation = Simulation(self.tasks, self.machine, self.owner, self.cores, self.rules, room=room)
        simulation.set_ranks(np.array(self.ranks))
        simulation.set_state(np.array(self.state_bytes))
        for source in range(self.tasks.sources):
            simulation.poll(source, 0.0)
        return simulation

    def run(self, simulation: Any, end_s: float) -> None:
        """Make the moves at their times, and go on to the end; the engine or the naive one."""
        script = Script(self.steps)
        for at_s, unit, worker in sorted(self.moves):
            simulation.advance(at_s, script.read)
            simulation.move(unit, worker)
        simulation.advance(end_s, script.read)


@st.composite
def scenarios(draw: st.DrawFn, *, network: bool = False, outages: bool = False) -> Scenario:
    """Structures are drawn, numbers come from a generator with a drawn seed, so that no two times are equal."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    machine = draw(_machines(random, network=network, outages=outages))
    sources, others = draw(st.integers(1, 2)), draw(st.integers(2, 7))
    number = sources + others
    edges = [
        (before, task)
        for task in range(sources, number)
        for before in sorted(draw(st.sets(st.integers(0, task - 1), max_size=3)))
    ]
    bound = [draw(st.integers(0, others - 1)) for _ in range(others)]
    fixed_s, ends = random.uniform(0, 0.3, number), np.array(edges, int).reshape(-1, 2)
    units = {unit: place for place, unit in enumerate(dict.fromkeys(bound))}
    unit = [len(units) + source for source in range(sources)] + [units[each] for each in bound]
    group = [draw(st.integers(0, 2)) for _ in range(number)]
    some = st.sets(st.integers(0, machine.workers - 1), min_size=1)
    cores = sorted(draw(st.one_of(st.just(range(machine.workers)), some)))
    outside = draw(st.booleans())
    owner = [draw(st.sampled_from(cores)) for _ in units]
    owner += [-1 if outside else draw(st.sampled_from(cores)) for _ in range(sources)]
    designs = list(QUEUES) if len(machine.hosts) == 1 else ["worker-queue", "node-queue"]
    rules = Rules(
        draw(st.sampled_from(designs)),
        draw(st.sampled_from(list(ORDERS))),
        draw(st.integers(1, 4)),
        draw(st.sampled_from([NO_LIMIT, 150, 500])),
        float(random.uniform(0.001, 0.1)),
        float(random.uniform(0.0, 0.01)),
        draw(st.booleans()),
        seed=draw(st.integers(0, 9)),
    )
    movable = len(units) + (0 if outside else sources)
    moves = [
        (float(random.uniform(0, 8)), draw(st.integers(0, movable - 1)), draw(st.sampled_from(cores)))
        for _ in range(draw(st.integers(0, 6)))
    ]
    return Scenario(
        Tasks(sources, np.array(unit), np.array(group), fixed_s, ends),
        machine,
        owner,
        cores,
        rules,
        random.uniform(-5, 5, number).tolist(),
        random.uniform(0, 50, len(units)).tolist(),
        [_steps(draw, random, source, sources, number) for source in range(sources)],
        moves,
    )


def _steps(
    draw: st.DrawFn, random: np.random.Generator, source: int, sources: int, number: int
) -> list[tuple[float, StepInput]]:
    found = []
    for _ in range(draw(st.integers(2, 8))):
        active = random.random(number) < 0.8
        active[:sources] = False
        active[source] = True
        rows = int(random.integers(1, 200)) * int(random.random() < 0.9)
        step = StepInput(
            source,
            float(random.uniform(0, 0.1)),
            rows,
            np.where(active, random.uniform(0.01, 1.0, number), 0.0),
            random.uniform(0, 100, number),
            random.integers(1, 50, number),
            active.astype(int),
            random.uniform(0, 0.5, number) if random.random() < 0.7 else None,
            random.uniform(-1, 3, number) if random.random() < 0.7 else None,
            ends=random.random(number) < 0.3 if random.random() < 0.7 else None,
            places=random.integers(0, 4, number) if random.random() < 0.7 else None,
        )
        found.append((float(random.choice([0.0, random.uniform(0.0, 2.0)])), step))
    return found


@st.composite
def _machines(draw: st.DrawFn, random: np.random.Generator, *, network: bool, outages: bool) -> Machine:
    sizes = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(2, 4)) if network else 1)]
    hosts = tuple(
        Host(f"h{n}", cores, draw(st.integers(1, min(2, cores))), float(random.uniform(0.5, 2)))
        for n, cores in enumerate(sizes)
    )
    links = _links(random, len(hosts), draw(st.sampled_from(["star", "line"]))) if network else ()
    found: list[Outage] = []
    if outages:
        for what in draw(
            st.sets(st.sampled_from([*(host.name for host in hosts), *(link.name for link in links)]), max_size=4)
        ):
            begin_s = draw(st.sampled_from([0.0, float(random.uniform(0, 6))]))
            found.append(Outage(begin_s, what, begin_s + float(random.uniform(0.1, 4))))
    levels = draw(st.integers(0, 3))
    return Machine(
        hosts,
        links,
        tuple(found),
        remote_byte_s=float(random.uniform(0, 0.01)),
        queue_s=tuple(random.uniform(0, 0.05, draw(st.integers(1, 3))).tolist()),
        slowdown=tuple(random.uniform(1, 2, draw(st.integers(1, 3))).tolist()),
        remote_queue_s=float(random.uniform(0, 0.05)),
        turn_slowdown=tuple(random.uniform(1, 2, levels).tolist()),
        wake_ups=tuple(map(tuple, random.uniform(0, 0.2, (levels, 3)).tolist())) if draw(st.booleans()) else (),
        pauses=tuple(map(tuple, random.uniform(0, 0.2, (levels, 3)).tolist())) if draw(st.booleans()) else (),
        long_slowdown=tuple(random.uniform(1, 2, draw(st.integers(0, 3))).tolist()),
        long_s=draw(st.sampled_from([inf, 0.5, 0.1])),
    )


def _links(random: np.random.Generator, hosts: int, form: str) -> tuple[Link, ...]:
    pairs = [(f"h{n}", "hub" if form == "star" else f"h{n + 1}") for n in range(hosts - (form == "line"))]
    both = [*pairs, *((target, source) for source, target in pairs)]
    return tuple(
        Link(*pair, float(random.uniform(20, 500)), float(random.uniform(0, 0.2)), int(random.integers(5, 50)), 3)
        for pair in both
    )
