"""Every Markdown file of the project, as its links, headings and commands; parsed by markdown-it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
PLACES = ("*.md", "docs/**/*.md", "charts/*/*.md", "runtime/eagle3/**/*.md", "images/**/*.md", "infra/**/*.md")
DOCUMENTS = sorted({path for place in PLACES for path in ROOT.glob(place)})
SHELLS = {"sh", "bash", "shell", "console"}
_OPERATORS = set(";&|()<>")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NOT_IN_A_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command, without pipes and redirections."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    """Assignments before it."""
    inline: bool = False
    """Whether it stands in a sentence, where required arguments may be left out."""

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says that can be checked."""

    links: tuple[str, ...]
    """Targets of links and images, as written."""
    anchors: frozenset[str]
    """Names of its headings, as GitHub makes them."""
    commands: tuple[Command, ...]
    """Of shell blocks and of code in sentences."""
    codes: tuple[str, ...]
    """Code in sentences."""
    fences: tuple[tuple[str, str], ...]
    """Language and text of its blocks."""


@cache
def document(path: Path) -> Document:
    """A file, parsed."""
    return parsed(path.read_text(encoding="utf-8"))


def parsed(text: str) -> Document:
    """A text, parsed."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens if token.type == "inline" for child in token.children or ()]
    links = [str(token.attrs[name]) for token in inline for name in ("href", "src") if name in token.attrs]
    fences = [(token.info.strip().split(" ")[0], token.content) for token in tokens if token.type == "fence"]
    codes = [token.content for token in inline if token.type == "code_inline"]
    commands = [command for language, block in fences if language in SHELLS for command in commands_of(block)]
    commands += [Command(command.words, inline=True) for code in codes for command in _from_code(code)]
    return Document(tuple(links), frozenset(_anchors(tokens)), tuple(commands), tuple(codes), tuple(fences))


def commands_of(block: str) -> Iterator[Command]:
    """The simple commands of a shell block, lines joined where they end in a backslash or within quotes."""
    lexer = shlex.shlex(_in_one_line(block), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if set(word) <= _OPERATORS | {"\n"}:
            yield from _command(words)
            words = []
        else:
            words.append(word)
    yield from _command(words)


def _in_one_line(block: str) -> str:
    """The block without comments; a line end within quotes becomes a blank, so that a command is one line."""
    lines = [re.sub(r"(^|\s)#.*$", "", line) for line in block.replace("\\\n", " ").splitlines()]
    joined = ""
    for line in lines:
        joined += line
        joined += " " if joined.count("'") % 2 or joined.count('"') % 2 else "\n"
    return joined


def _command(words: list[str]) -> Iterator[Command]:
    environment = []
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        environment.append((name, value))
        words = words[1:]
    if words or environment:
        yield Command(tuple(words), tuple(environment))


def _from_code(code: str) -> Iterator[Command]:
    """Commands of code in a sentence; `a|b` without blanks stands for each of them."""
    try:
        words = shlex.split(code)
    except ValueError:
        return
    choices = [word.split("|") if re.fullmatch(r"[\w-]+(\|[\w-]+)+", word) else [word] for word in words]
    for number in range(max((len(choice) for choice in choices), default=0)):
        yield from _command([choice[min(number, len(choice) - 1)] for choice in choices])


def _anchors(tokens: list[Token]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        children = tokens[place + 1].children or ()
        title = "".join(child.content for child in children if child.type in ("text", "code_inline"))
        slug = _NOT_IN_A_SLUG.sub("", title.lower()).replace(" ", "-")
        yield f"{slug}-{seen[slug]}" if slug in seen else slug
        seen[slug] = seen.get(slug, 0) + 1
