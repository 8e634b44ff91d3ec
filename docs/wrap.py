#!/usr/bin/env python3
"""Wraps the prose of the documents that are named at 100 columns: `docs/wrap.py docs/*/*.md`. Tables, code and headings stay as they
are, and no word changes."""

import pathlib
import re
import sys

COLUMNS = 100

#: A line that began with such a word would be a list, a heading or a table.
MARK = re.compile(r"[-+*]|\d+[.)]|[#=-]+|[>|].*")
ITEM = re.compile(r"(\s*(?:[-+*]|\d+[.)])\s+)(.*)")


def wrapped(words, first, rest):
    """Lines of a paragraph or an item of a list, of which the first begins with `first` and others with `rest`."""
    line = first
    for word in words:
        if len(line) + 1 + len(word) > COLUMNS and line.strip() and not MARK.fullmatch(word):
            yield line
            line = rest + word
        else:
            line += word if not line or line.endswith(" ") else " " + word
    yield line


def wrap(text):
    """The document's lines."""
    paragraph, fenced = None, False
    for line in [*text.split("\n"), None]:
        stripped = "" if line is None else line.strip()
        fence = stripped.startswith("```")
        item = None if line is None or fenced else ITEM.fullmatch(line)
        stands_alone = fenced or fence or not stripped or stripped.startswith(("|", "#", "<!--"))
        if paragraph and (stands_alone or item):
            yield from wrapped(*paragraph)
            paragraph = None
        fenced ^= fence
        if line is None:
            return
        if item and not stands_alone:
            paragraph = (item[2].split(), item[1], " " * len(item[1]))
        elif stands_alone:
            yield line
        elif paragraph:
            paragraph[0].extend(stripped.split())
        else:
            indent = line[: len(line) - len(line.lstrip())]
            paragraph = (stripped.split(), indent, indent)


for name in sys.argv[1:]:
    path = pathlib.Path(name)
    before = path.read_text()
    after = "\n".join(wrap(before))
    assert before.split() == after.split(), f"{name}: a word would change"
    path.write_text(after)
