"""Maps of spatial runs: from a run's journal to pictures, pages and GeoJSON."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.small_city import city
from tests.spatial_case import spatial_case

from shoal.cli.main import cli
from shoal.control.journal import Mapped
from shoal.experiments.maps.course import course_of, peak, shares
from shoal.experiments.maps.geojson import features
from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import Cut, operator_of
from shoal.session.journal import read_journal
from shoal.session.run import Run, start


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The journal of a run in which a rectangle is cut."""
    directory = str(tmp_path_factory.mktemp("journal"))

    def cut(run: Run, event: EpochCommitted) -> None:
        spatial = [i for i in event.snapshot.binding.worker_of if run.graph.operators[operator_of(i)].grid]
        if event.epoch == 5:
            run.runtime.apply(Repartition((Cut(min(spatial), "column", 2),)))

    job = spatial_case(1).job(partitions=4)
    start(job, on="reference", workers=2, policy="round-robin", journal=directory).wait(cut)
    return directory


def test_a_map_is_kept_before_rectangles_change_and_at_the_end(journal: str) -> None:
    maps = [entry for entry in read_journal(journal) if isinstance(entry, Mapped)]
    assert list(dict.fromkeys(len(each.tiles) for each in maps)) == [4, 5]
    assert all(sum((t.right - t.left) * (t.bottom - t.top) for t in each.tiles) == 80 for each in maps)
    assert sum(tile.events for each in maps for tile in each.tiles) > 300
    assert sum(tile.results for each in maps for tile in each.tiles) == spatial_case(1).expected()["found"].num_rows


def test_shares_and_peak_are_those_of_the_work(journal: str) -> None:
    course = course_of(read_journal(journal), journal)
    for each in course.maps:
        assert sum(shares(each)) == pytest.approx(1.0)
        assert 1.0 <= peak(each) <= 2.0
    assert course.seconds() == sorted(course.seconds())
    assert course.query == "found"


def test_geojson_has_the_rectangles_in_the_coordinates_of_the_space(journal: str) -> None:
    course = course_of(read_journal(journal), journal)
    found = features(course)["features"]
    assert len(found) == sum(len(each.tiles) for each in course.maps)
    corners = [corner for each in found[:4] for corner in each["geometry"]["coordinates"][0]]
    assert (min(corners), max(corners)) == ([0.0, 0.0], [100.0, 100.0])
    area = sum((ring[2][0] - ring[0][0]) * (ring[2][1] - ring[0][1]) for ring in _rings(found[:4]))
    assert area == pytest.approx(10_000)


def _rings(found: list[dict[str, dict[str, list[list[list[float]]]]]]) -> list[list[list[float]]]:
    return [each["geometry"]["coordinates"][0] for each in found]


def test_the_command_writes_a_picture_a_page_and_geojson(journal: str, tmp_path: Path) -> None:
    files = {option: tmp_path / f"map.{option}" for option in ("png", "html", "geojson")}
    options = [text for option, path in files.items() for text in (f"--{option}", str(path))]
    result = CliRunner().invoke(cli, ["map", journal, journal, *options])
    assert result.exit_code == 0, result.output
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert json.loads(files["geojson"].read_text())["type"] == "FeatureCollection"
    page = files["html"].read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert data is not None
    assert list(dict.fromkeys(len(frame["tiles"]) for frame in json.loads(data.group(1))["frames"])) == [4, 5]
    assert "http" not in page.replace("<!doctype html>", "")


def test_a_picture_is_a_png_whatever_its_name_and_folders_are_made(journal: str, tmp_path: Path) -> None:
    files = tmp_path / "some" / "map.txt", tmp_path / "other" / "map.html"
    result = CliRunner().invoke(cli, ["map", journal, "--png", str(files[0]), "--html", str(files[1])])
    assert result.exit_code == 0, result.output
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].exists()


@pytest.mark.parametrize("option", ["--png", "--html", "--geojson"])
def test_a_file_that_cannot_be_written_gets_a_clear_message(option: str, journal: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(cli, ["map", journal, option, str(tmp_path / "file" / "map")])
    assert result.exit_code != 0
    assert f"cannot write {tmp_path / 'file' / 'map'}: " in str(result.output) + str(result.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param([], "map needs a file to write: --png, --html or --geojson", id="no file"),
        pytest.param(
            ["--query", "q", "--png", "x"], "has no map of query 'q'; choose one with --query: found", id="query"
        ),
    ],
)
def test_bad_options_get_a_clear_message(options: list[str], message: str, journal: str) -> None:
    result = CliRunner().invoke(cli, ["map", journal, *options])
    assert result.exit_code != 0
    assert message in str(result.output) + str(result.exception)


def test_a_run_without_places_has_no_map(tmp_path: Path) -> None:
    start(city(events=1000).job, on="reference", journal=str(tmp_path)).wait()
    result = CliRunner().invoke(cli, ["map", str(tmp_path), "--png", str(tmp_path / "x.png")])
    assert "has no map; only runs with match_ranges and a journal have maps" in result.output + str(result.exception)
