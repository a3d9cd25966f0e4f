"""Makes the docstrings' Sphinx roles, equations and doctests readable as Markdown."""

import re
import textwrap

import griffe

ROLE = re.compile(r":(?:class|func|meth|data|attr|mod):`~?\.?([^`]+)`")
INLINE_MATH = re.compile(r":math:`([^`]+)`")
MATH = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +.*| *(?=\n\1 )))*)", re.M)
DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*\n).+)*(?:\n\s*\n>>> .*(?:\n(?!\s*\n).+)*)*", re.M)


class MarkdownDocstrings(griffe.Extension):
    """Rewrites each docstring before its sections are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """The docstring with roles as code, equations as blocks and doctests under ``Examples:``."""
    text = ROLE.sub(lambda match: f"`{match[1].rpartition('.')[2]}`", text)
    text = INLINE_MATH.sub(lambda match: f"`{match[1]}`", text)
    text = MATH.sub(_equation, text)
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.M)
    return DOCTEST.sub(lambda match: "Examples:\n" + textwrap.indent(match[0], "    "), text)


def _equation(match: re.Match[str]) -> str:
    body = textwrap.dedent(match[2]).strip()
    return textwrap.indent(f"```text\n{body}\n```", match[1])
