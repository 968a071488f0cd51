"""The plane of the `geo-pubsub` workload: the contiguous United States, with its largest cities.

Coordinates are degrees. Weights are inhabitants of the metropolitan areas in thousands, rounded, of the census of 2020.
"""

import numpy as np
import numpy.typing as npt

SPACE = (-125.0, 24.0, -66.0, 50.0)
"""Least longitude and latitude, largest longitude and latitude."""
CITIES = (
    ("New York", -74.006, 40.713, 20140),
    ("Los Angeles", -118.244, 34.052, 13201),
    ("Chicago", -87.630, 41.878, 9619),
    ("Dallas", -96.797, 32.777, 7637),
    ("Houston", -95.370, 29.760, 7122),
    ("Washington", -77.037, 38.907, 6385),
    ("Philadelphia", -75.165, 39.953, 6245),
    ("Miami", -80.192, 25.762, 6138),
    ("Atlanta", -84.388, 33.749, 6090),
    ("Boston", -71.059, 42.360, 4942),
    ("Phoenix", -112.074, 33.448, 4846),
    ("San Francisco", -122.419, 37.775, 4749),
    ("Riverside", -117.396, 33.953, 4600),
    ("Detroit", -83.046, 42.331, 4392),
    ("Seattle", -122.332, 47.606, 4019),
    ("Minneapolis", -93.265, 44.978, 3690),
    ("San Diego", -117.161, 32.716, 3299),
    ("Tampa", -82.457, 27.951, 3175),
    ("Denver", -104.990, 39.739, 2964),
    ("Baltimore", -76.612, 39.290, 2845),
    ("St. Louis", -90.199, 38.627, 2820),
    ("Orlando", -81.379, 28.538, 2673),
    ("Charlotte", -80.843, 35.227, 2660),
    ("San Antonio", -98.494, 29.424, 2558),
    ("Portland", -122.676, 45.523, 2513),
    ("Sacramento", -121.494, 38.582, 2397),
    ("Pittsburgh", -79.996, 40.441, 2371),
    ("Austin", -97.743, 30.267, 2283),
    ("Las Vegas", -115.140, 36.170, 2265),
    ("Cincinnati", -84.512, 39.103, 2257),
    ("Kansas City", -94.579, 39.100, 2192),
    ("Columbus", -82.999, 39.961, 2139),
    ("Indianapolis", -86.158, 39.768, 2111),
    ("Cleveland", -81.694, 41.499, 2088),
    ("San Jose", -121.886, 37.338, 2000),
    ("Nashville", -86.781, 36.163, 1990),
    ("Virginia Beach", -75.978, 36.853, 1800),
    ("Providence", -71.413, 41.824, 1677),
    ("Jacksonville", -81.656, 30.332, 1606),
    ("Milwaukee", -87.906, 43.039, 1575),
    ("Oklahoma City", -97.516, 35.468, 1426),
    ("Raleigh", -78.639, 35.780, 1414),
    ("Memphis", -90.049, 35.150, 1338),
    ("Richmond", -77.436, 37.541, 1314),
    ("Louisville", -85.758, 38.253, 1286),
    ("New Orleans", -90.072, 29.951, 1272),
    ("Salt Lake City", -111.891, 40.761, 1258),
    ("Buffalo", -78.879, 42.886, 1167),
    ("Omaha", -95.934, 41.257, 968),
    ("Albuquerque", -106.650, 35.084, 917),
    ("El Paso", -106.485, 31.762, 869),
    ("Boise", -116.202, 43.615, 765),
    ("Spokane", -117.426, 47.659, 586),
    ("Billings", -108.501, 45.783, 184),
)
"""Name, longitude, latitude and weight."""
SHARES = 1 << 24
"""Shares of the cities are multiples of one part in this many."""


def city_centres() -> npt.NDArray[np.float64]:
    """Longitudes and latitudes of the cities, as two rows."""
    return np.array([[city[1] for city in CITIES], [city[2] for city in CITIES]])


def city_bounds() -> npt.NDArray[np.int64]:
    """The cumulative shares of the cities: the city of a number below `SHARES` is the first with a larger bound.

    >>> bounds = city_bounds()
    >>> int(bounds[-1]) == SHARES, round(int(bounds[0]) / SHARES, 3)
    (True, 0.109)
    """
    weights = np.cumsum([city[3] for city in CITIES])
    return np.rint(weights * (SHARES / weights[-1])).astype(np.int64)
