#!/usr/bin/env python3
"""Checks the documents against the tree: part of `make lint`.

Links lead to files and headings that exist. Files and tests that a document names in backticks exist, and so do documents
that code names. Prose has at most 120 columns; tables, code and lines of one word may be longer. `docs/wrap.py` wraps it."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS_MAX = 120

LINK = re.compile(r"\[(?:`[^`]*`|[^\]`])*\]\(([^)\s]+)\)")
CODE = re.compile(r"``(.+?)``|`([^`]+)`")
PATH = re.compile(r"^(?:crates|lab|spec|docs)/[\w./-]+$")
#: A source file, by as much of its path as tells it, without `src`.
SOURCE = re.compile(r"^[\w./-]+\.rs$")
#: A name with as many underscores is a claim, that is a test; shorter ones may be anything.
TEST = re.compile(r"^[a-z][a-z0-9]*(?:_[a-z0-9]+){5,}$")
NAMED_IN_CODE = re.compile(r"\bdocs/[\w/.-]+\.md\b")


def tracked(*suffixes):
    """Files of the repository, those that are new and not ignored included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    paths = (ROOT / name for name in listed.stdout.splitlines() if name.endswith(suffixes) or name in suffixes)
    return sorted(path for path in paths if path.is_file())


def lines(path):
    """(number, line, whether it is code), of a document."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = line.lstrip().startswith("```")
        yield number, line, fenced or fence
        fenced ^= fence


def tails(paths):
    """Every end of every path, with `src` and without: what a document may call a source file."""
    names = {str(path.relative_to(ROOT)) for path in paths}
    names |= {name.replace("/src/", "/") for name in names}
    return {"/".join(parts[start:]) for parts in (name.split("/") for name in names) for start in range(len(parts))}


def anchors(path):
    """The names by which GitHub links to a document's headings."""
    found = set()
    for _, line, code in lines(path):
        if not code and (heading := re.match(r"#+ +(.*)", line)):
            text = LINK.sub(lambda link: link.group(0)[1:].split("](")[0], heading.group(1)).lower()
            name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            copies = sum(1 for other in found if other == name or re.fullmatch(re.escape(name) + r"-\d+", other))
            found.add(f"{name}-{copies}" if copies else name)
    return found


def link_problem(document, target):
    """What is wrong with a link, or nothing."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return f"link to {target}, which does not exist"
    if anchor and anchor not in anchors(path):
        return f"link to {target}, which has no such heading"
    return None


def problems(document, words, sources):
    """(line, what is wrong) of a document, where `words` are all that occur in code, `sources` the names of source files."""
    text = "\n".join("" if code else line for _, line, code in lines(document))
    for link in LINK.finditer(text):
        if problem := link_problem(document, link.group(1)):
            yield text.count("\n", 0, link.end()) + 1, problem
    for number, line, code in lines(document):
        if code:
            continue
        for name in (first or second for first, second in CODE.findall(line)):
            if PATH.match(name) and not (ROOT / name).exists() or SOURCE.match(name) and name not in sources:
                yield number, f"names {name}, which does not exist"
            if TEST.match(name) and name not in words:
                yield number, f"names {name}, which no code has"
        if len(line) > COLUMNS_MAX and not line.lstrip().startswith(("|", "#")) and len(line.split()) > 1:
            yield number, f"{len(line)} columns; prose has at most {COLUMNS_MAX}"


def main():
    texts = tracked(".rs", ".py", ".c", ".h", ".cpp", ".sh", ".toml", "Makefile")
    code = {path: path.read_text(errors="replace") for path in texts}
    words = {word for text in code.values() for word in re.findall(r"\w+", text)}
    sources = tails(tracked(".rs"))
    found = 0
    for document in tracked(".md"):
        for number, problem in problems(document, words, sources):
            found += 1
            print(f"{document.relative_to(ROOT)}:{number}: {problem}")
    for path, text in code.items():
        for number, line in enumerate(text.splitlines(), 1):
            for name in NAMED_IN_CODE.findall(line):
                if not (ROOT / name).exists():
                    found += 1
                    print(f"{path.relative_to(ROOT)}:{number}: names {name}, which does not exist")
    return f"{found} problems in documents" if found else 0


if __name__ == "__main__":
    sys.exit(main())
