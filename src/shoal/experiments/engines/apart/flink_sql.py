"""Apache Flink: its SQL over files, in a Python of its own, since PyFlink pins versions of Arrow and NumPy."""

from shoal.experiments.engines.apart.environment import ApartEngine, Environment


class FlinkEngine(ApartEngine):
    """Flink's packages can read CSV and JSON files only; event time is the column `rowtime` of every table."""

    name = "flink"
    languages = ("flink", "sql")
    format = "csv"
    environment = Environment("SHOAL_FLINK_PYTHON", "pyflink", "pip install apache-flink", "flink_adapter.py")


FLINK = FlinkEngine()
