"""Storage: bytes on any filesystem, and how values become bytes and come back.

Everything that one process writes and another reads is a frozen dataclass that `codec` turns into JSON. Files that must
survive a crash are written whole or not at all (`directory`) and carry a checksum (`record`). Damage leaves this
package only as an error that says what was expected and what was found.
"""
