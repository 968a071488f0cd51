"""One page with all experiments of a file: tables, figures, failures and the machine, without any other resource."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from shoal.experiments.machine import PACKAGES
from shoal.experiments.results.figures import drawable, svg
from shoal.experiments.results.point_summary import ExperimentSummary
from shoal.experiments.results.result_store import plain_name
from shoal.experiments.results.tables import notes_of, table_of

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6676; --line: #d9dee6; --page: #fff; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #353d49; --page: #14181f; --bad: #ff8a80; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem; }
p, ul { margin: .4rem 0; } .soft { color: var(--soft); } .bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } .name { text-align: left; } figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; } dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1.2rem; }
dt { color: var(--soft); } dd { margin: 0; }
"""
MACHINE = (
    *(
        ("version", "version"),
        ("commit", "commit"),
        ("cores", "cores"),
        ("cpu", "processor"),
        ("memory_gb", "memory, GB"),
    ),
    *(("load_1min", "load before the first trial"), ("python", "Python"), ("java", "Java")),
    *((name, name) for name in PACKAGES),
)


def page(title: str, summaries: Sequence[ExperimentSummary], missing: Mapping[str, str]) -> str:
    """The page; `missing` says of experiments, by name, what has not been run."""
    return "\n".join(_lines(title, summaries, missing)) + "\n"


def _lines(title: str, summaries: Sequence[ExperimentSummary], missing: Mapping[str, str]) -> Iterator[str]:
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style></head><body>"
    yield f"<h1>{escape(title)}</h1>"
    yield f"<p>{_verdict(summaries, len(missing))}</p>"
    links = (f'<li><a href="#{_anchor(each)}">{escape(each.title)}</a>{_mark(each)}</li>' for each in summaries)
    yield f"<ul>{''.join(links)}</ul>"
    if missing:
        listed = "".join(f"<li>{escape(name)}: {escape(text)}</li>" for name, text in missing.items())
        yield f'<p class="bad">Not complete:</p><ul>{listed}</ul>'
    for summary in summaries:
        yield from _experiment(summary)
    yield "<h2>Machine and versions</h2>"
    for text, names in _machines(summaries).items():
        yield f'<p class="soft">{escape(", ".join(names))}</p>{text}'
    yield "</body></html>"


def _verdict(summaries: Sequence[ExperimentSummary], incomplete: int) -> str:
    bad = sum(not each.right for each in summaries)
    if not bad:
        shown = f"{len(summaries)} experiment{'s' if len(summaries) != 1 else ''}"
        return f"{shown}, no result is wrong{f'; {incomplete} not complete' if incomplete else ''}."
    return f'<span class="bad">{bad} of {len(summaries)} experiments have failed trials or wrong results.</span>'


def _mark(summary: ExperimentSummary) -> str:
    return "" if summary.right else ' <span class="bad">failed or wrong</span>'


def _anchor(summary: ExperimentSummary) -> str:
    return plain_name(summary.name)


def _experiment(summary: ExperimentSummary) -> Iterator[str]:
    yield f'<h2 id="{_anchor(summary)}">{escape(summary.title)}</h2>'
    small = "; the small variant, whose numbers say little" if summary.small else ""
    yield (
        f'<p class="soft">{escape(summary.name)}; {escape(summary.began_at[:16].replace("T", " "))} UTC; '
        f"{summary.took_s:,.0f} s; answers compared with: {summary.answers}{small}</p>"
    )
    yield f'<div class="wide">{_table(summary)}</div>'
    for note in notes_of(summary):
        yield f'<p class="soft">{escape(note)}</p>'
    for spec in summary.figures:
        if drawable(summary, spec):
            yield f"<figure>{svg(summary, spec)}</figure>"
        else:
            yield f'<p class="soft">No figure of {escape(spec.y)}: no point with right results has it.</p>'


def _table(summary: ExperimentSummary) -> str:
    table = table_of(summary)
    left = [at < table.names or name == "answers" for at, name in enumerate(table.header)]
    lines = [
        "<tr>" + "".join(_cell("th", name, left[at]) for at, name in enumerate(table.header)) + "</tr>",
        *("<tr>" + "".join(_cell("td", text, left[at]) for at, text in enumerate(row)) + "</tr>" for row in table.rows),
    ]
    return f"<table>{''.join(lines)}</table>"


def _cell(tag: str, text: str, left: bool) -> str:
    classes = [*(["name"] if left else []), *(["bad"] if text in ("WRONG", "FAILED", "not checked") else [])]
    said = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{said}>{escape(text)}</{tag}>"


def _machines(summaries: Sequence[ExperimentSummary]) -> dict[str, list[str]]:
    """The machines that experiments ran on, each once, with the names of the experiments."""
    found: dict[str, list[str]] = {}
    for summary in summaries:
        rows = "".join(
            f"<dt>{escape(words)}</dt><dd>{escape(str(summary.environment[key]))}</dd>"
            for key, words in MACHINE
            if summary.environment.get(key) not in (None, "")
        )
        found.setdefault(f"<dl>{rows}</dl>", []).append(summary.name)
    return found
