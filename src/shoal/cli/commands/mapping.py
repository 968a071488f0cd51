"""`shoal map`: the tiles of spatial operators over the time of a run."""

import json
from pathlib import Path

import click

from shoal.errors import ConfigError
from shoal.session.journal import read_journal


@click.command("map")
@click.argument("directories", metavar="RUN_DIR...", nargs=-1, required=True)
@click.option("--query", help="The query to show, where a run has several spatial operators.")
@click.option("--png", type=click.Path(dir_okay=False), help="Write a picture: maps, and lines for every RUN_DIR.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page that plays the maps of the first RUN_DIR.")
@click.option("--geojson", type=click.Path(dir_okay=False), help="Write the tiles of the first RUN_DIR as GeoJSON.")
def map_(
    directories: tuple[str, ...], query: str | None, png: str | None, html: str | None, geojson: str | None
) -> None:
    """Draw the tiles of a spatial operator, their workers and their load over time.

    RUN_DIR is the --checkpoint or --journal directory of a run with match_ranges. Several are compared in the picture,
    each named by its policy.
    """
    from shoal.experiments.maps.course import course_of
    from shoal.experiments.maps.geojson import features
    from shoal.experiments.maps.page import page
    from shoal.experiments.maps.picture import draw_maps

    if not (png or html or geojson):
        raise ConfigError("map needs a file to write: --png, --html or --geojson")
    courses = [course_of(read_journal(directory), directory, query) for directory in directories]
    for file in filter(None, (png, html, geojson)):
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            if file == png:
                draw_maps(courses, Path(file))
            elif file == html:
                Path(file).write_text(page(courses[0]), encoding="utf-8")
            else:
                Path(file).write_text(json.dumps(features(courses[0])), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror}") from error
        click.echo(f"wrote {file}")
