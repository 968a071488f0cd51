"""Storage: files on any filesystem, and the encoding of values as bytes.

In come frozen dataclasses, which `codec` encodes as JSON; out come the same values in another process. Files that must
survive a crash are written atomically (`directory`) and have a checksum (`record`). Damage is reported only as an error
that says what was expected and what was found.
"""
