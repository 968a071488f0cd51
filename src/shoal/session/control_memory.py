"""Control memory: what the controller remembers, in a file of the checkpoint, replaced after every epoch.

It is written after the epoch was committed. If a run dies between the two, what came in that epoch is missing in the
statistics; no result depends on them.
"""

from shoal.control.partitions.remembered import Remembered
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory
from shoal.storage.record import Record

NAME = "control"
FORMAT = 1
RECORD = Record(Codec[Remembered]([Remembered], format=FORMAT))


class ControlMemory:
    """The file in the directory of a checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        """Name the file; nothing is read or written yet."""
        self._directory = Directory(checkpoint)

    def read(self) -> Remembered | None:
        """What an earlier run has remembered, if there was one; raises `CheckpointError` if the file is damaged."""
        if not self._directory.exists(NAME):
            return None
        return RECORD.decode(self._directory.read(NAME), self._directory.path(NAME))

    def write(self, remembered: Remembered) -> None:
        """Replace the file."""
        self._directory.write(NAME, RECORD.encode(remembered))
