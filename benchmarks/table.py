"""Tables for the terminal and for Markdown."""

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def plain(header: Sequence[str], rows: Rows) -> str:
    """Aligned columns: the first to the left, numbers to the right."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(_aligned(cell, i, widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines)


def markdown(header: Sequence[str], rows: Rows) -> str:
    """A Markdown table."""
    ruler = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ruler, *rows))


def _aligned(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)
