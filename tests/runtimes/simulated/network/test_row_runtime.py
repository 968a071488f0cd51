"""Runs row by row: results are those of every runtime, whatever moves over whatever network."""

from pathlib import Path

import pytest
from tests.small_city import city, result_tables

from shoal.errors import ConfigError
from shoal.mechanisms.catalog import LOSSY, MECHANISMS
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import shuffled
from shoal.session.digest import differences
from shoal.session.run import Run, start

STAR = "star:3x1@4Mbit,5ms"
FAST = ("all-at-once", "meces", "lazy-latency", "window-recreation")
"""Mechanisms that are always tested over a network; all are, in `make test`, on one host."""
EXACT = [name for name in MECHANISMS if name not in LOSSY]


def moved(mechanism: str, seed: int, **conf: str) -> Run:
    """A run of the small city over a slow star, in which everything moves a few times."""
    ready = city(events=3_000, rate=600.0)
    given = {"detail": "rows", "topology": STAR, "step_s": "0.1", **conf}
    run = start(ready.job, on="simulated", workers=3, policy="round-robin", mechanism=mechanism, conf=given)

    def act(run: Run, event: EpochCommitted) -> None:
        if event.epoch % 12 == 3 + seed:
            run.rebind(shuffled(run.job.graph, 3, seed=event.epoch + seed))

    run.wait(act)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run


@pytest.mark.parametrize(
    "mechanism", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in EXACT]
)
def test_no_mechanism_changes_a_result_over_a_slow_network(mechanism: str) -> None:
    run = moved(mechanism, seed=0)
    moves = [move for event in run.finished for move in event.moves if not move.aborted]
    assert moves
    assert all(move.seconds is not None and move.seconds > 0 for move in moves)
    assert any(move.state_bytes for move in moves)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", EXACT)
@pytest.mark.parametrize("seed", range(1, 6))
def test_no_mechanism_changes_a_result_whenever_it_begins(mechanism: str, seed: int) -> None:
    moved(mechanism, seed)


UNEVEN = """\
hosts:
- {{name: source, cores: 1, speed: {source}}}
- {{name: target, cores: 1, speed: {target}}}
links:
- {{from: source, to: target, bandwidth: 10Mbit, latency: 1ms}}
"""


@pytest.mark.parametrize(
    ("mechanism", "source", "target"),
    [
        pytest.param("megaphone", 1, 0.002, id="megaphone to a slow host"),
        pytest.param("window-recreation", 0.002, 1, id="window-recreation from a slow host"),
        pytest.param("state-recreation", 0.002, 1, id="state-recreation from a slow host"),
    ],
)
def test_a_host_that_is_behind_emits_every_result_once(
    tmp_path: Path, mechanism: str, source: float, target: float
) -> None:
    (tmp_path / "slow.yaml").write_text(UNEVEN.format(source=source, target=target))
    ready = city(events=1_200, rate=600.0)
    given = {"detail": "rows", "topology": str(tmp_path / "slow.yaml"), "step_s": "0.05", "source": "outside"}
    run = start(ready.job, on="simulated", workers=2, policy="round-robin", mechanism=mechanism, conf=given)

    def act(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 8:
            run.rebind(Binding.of(dict.fromkeys(run.job.graph.stateful_instances, 1), 2))

    run.wait(act)
    assert run.finished
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_the_same_run_has_the_same_times() -> None:
    once, again = moved("meces", seed=1), moved("meces", seed=1)
    assert [event.moves for event in once.finished] == [event.moves for event in again.finished]
    assert once.tally.latency == again.tally.latency


def test_an_instance_is_frozen_while_its_state_moves_unless_its_source_goes_on() -> None:
    def frozen_s(mechanism: str) -> float:
        return max(move.frozen_s or 0.0 for event in moved(mechanism, seed=0).finished for move in event.moves)

    assert frozen_s("all-at-once") > 0.01  # at least the latency of the link
    assert frozen_s("megaphone") <= 0.01 + 1e-9  # an instance with a single key, which is on its way
    assert frozen_s("state-recreation") == 0.0


@pytest.mark.parametrize("setting", ["mode=statistical", "contention=profile", "scheduling=fcfs", "work_factor=2"])
def test_settings_without_a_meaning_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ConfigError, match=name):
        start(city().job, on="simulated", workers=2, conf={"detail": "rows", name: value})
