"""The code blocks of the documentation."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Commands in a sentence, and in blocks for several machines.
_COMMAND = re.compile(
    r"(?<!`)`((?:make |rlkit-sac |python recipes/)[^`\n]+)`|^(rlkit-sac .+?)(?: &)?$", re.MULTILINE
)
_FILE = re.compile(r"# (my_\w+\.py)\n")


@dataclass
class Block:
    """Code of a page.

    Attributes:
        page: the file.
        line: of its first code.
        language: python, bash, yaml, diff, text or console; command in a sentence.
        code: its text.
        file: the file that the block is, if it is one.
        output: the block right below if that is text, which is what the code prints.
        like: the same if it is console, which is what the code prints in another run.
    """

    page: Path
    line: int
    language: str
    code: str
    file: str | None
    output: str | None = None
    like: str | None = None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are no output, in their order."""
    text, found, end = page.read_text(encoding="utf-8"), [], 0

    def add_commands(stop: int) -> None:
        """Add those between the last block and ``stop``."""
        for match in _COMMAND.finditer(text, end, stop):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, "command", match[1] or match[2], None))

    for match in _BLOCK.finditer(text):
        add_commands(match.start())
        language, title, code = match.groups()
        below = found and found[-1].language != "command" and not text[end : match.start()].strip()
        if language == "text" and below:
            found[-1].output = code
        elif language == "console" and below:
            found[-1].like = code
        elif language not in ("text", "console"):
            first = _FILE.match(code)
            line = text.count("\n", 0, match.start(3)) + 1
            found.append(Block(page, line, language, code, title or (first and first[1])))
        end = match.end()
    add_commands(len(text))
    return found
