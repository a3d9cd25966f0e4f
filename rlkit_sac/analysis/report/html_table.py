"""Tables in HTML, in which nothing of a run is markup."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from rlkit_sac.analysis.tables import cell_text

LONGEST = 2000  # characters of a cell


class HTML(str):
    """Text that is markup already."""


def escape(value: Any) -> HTML:
    """Any value as text in HTML, numbers rounded as in :func:`markdown_table`.

    >>> escape("<b>"), escape(12345.678), escape(None), escape(HTML("<b>"))
    ('&lt;b&gt;', '12346', '', '<b>')
    """
    if isinstance(value, HTML):
        return value
    text = str(value) if isinstance(value, str) else cell_text(value)
    return HTML(html.escape(text if len(text) <= LONGEST else f"{text[:LONGEST]} …"))


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str) -> HTML:
    """A table that scrolls within its own box; the exact number is the title of its cell.

    Args:
        headings: of the columns.
        rows: their cells; the first one is the heading of the row.
        caption: what the table shows, for screen readers.

    >>> print(html_table(["task", "mean"], [["<Ant>", 12345.678]], caption="Results"))
    <div class="scroll" tabindex="0" role="region" aria-label="Results"><table>
    <tr><th scope="col">task</th><th scope="col" class="number">mean</th></tr>
    <tr><th scope="row">&lt;Ant&gt;</th><td class="number" title="12345.678">12346</td></tr>
    </table></div>
    """
    rows = list(rows)
    head = ""
    for at, heading in enumerate(headings):
        kind = ' class="number"' if at and any(_is_number(row[at]) for row in rows) else ""
        head += f'<th scope="col"{kind}>{escape(heading)}</th>'
    lines = [head]
    for first, *values in rows:
        lines.append(f'<th scope="row">{escape(first)}</th>{"".join(map(_cell, values))}')
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    label = html.escape(caption)
    return HTML(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'
        f"{body}\n</table></div>"
    )


def _cell(value: Any) -> str:
    if not _is_number(value):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    exact = "" if math.isnan(value) else f' title="{float(value)}"'
    return f'<td class="number"{exact}>{escape(value)}</td>'


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
