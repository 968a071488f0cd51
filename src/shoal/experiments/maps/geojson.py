"""Maps as GeoJSON: one feature per tile, with its worker and load."""

from typing import Any

from shoal.control.journal import Mapped
from shoal.experiments.maps.course import Course, borders, shares


def features(course: Course) -> dict[str, Any]:
    """All maps of a course as one collection; each feature knows when it was so.

    Coordinates are those of the space. They are longitudes and latitudes, as GeoJSON wants them, if the grid is in
    degrees; the property `units` says so.
    """
    found = [
        feature for second, each in zip(course.seconds(), course.maps, strict=True) for feature in _of(each, second)
    ]
    return {"type": "FeatureCollection", "features": found}


def _of(map_: Mapped, second: float) -> list[dict[str, Any]]:
    made = []
    for tile, share in zip(map_.tiles, shares(map_), strict=True):
        left, low, right, high = borders(map_, tile)
        ring = [[left, low], [right, low], [right, high], [left, high], [left, low]]
        properties = {
            "instance": f"{map_.operator}/{tile.number}",
            "worker": tile.worker,
            "at_s": round(second, 3),
            "events": tile.events,
            "results": tile.results,
            "share": round(share, 4),
            "units": map_.units,
        }
        made.append(
            {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties}
        )
    return made
