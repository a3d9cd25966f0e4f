"""Tables in HTML, in which nothing of a run is markup."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

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
        rows: their cells.
        caption: what the table shows, for screen readers.

    >>> print(html_table(["task", "mean"], [["<Ant>", 12345.678]], caption="Results")[:72])
    <div class="scroll" tabindex="0" role="region" aria-label="Results"><tab
    """
    cells = pd.DataFrame([[*map(_cell, row)] for row in rows], columns=[*map(escape, headings)])
    with pd.option_context("display.max_colwidth", None):
        table = cells.to_html(index=False, border=0, escape=False, justify="left")
    table = table.replace(' style="text-align: left;"', "")  # which the page's policy forbids
    label = html.escape(caption)
    return HTML(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return escape(value)
    if isinstance(value, int):
        return f'<span class="number">{value:,}</span>'
    exact = "" if math.isnan(value) else f' title="{float(value)}"'
    return f'<span class="number"{exact}>{escape(value)}</span>'
