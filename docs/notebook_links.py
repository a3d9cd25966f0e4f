"""Makes the links of notebooks to pages, which are right in the repository, right on the site."""

import re
from typing import Any

LINK = re.compile(r'(?<=href=")\.\./(\w+)\.md(?=["#])')


def on_page_content(html: str, *, page: Any, **kwargs: object) -> str:
    """Rewrite them once a notebook is HTML; mkdocs-jupyter leaves them as they are."""
    return LINK.sub(r"../../\1/", html) if page.file.src_uri.endswith(".ipynb") else html
