"""The memory of channels: chunks of blocks, allocated ahead of need and reused.

Layouts of blocks come in, chunks to write go out, and come back when they have been read.
"""
