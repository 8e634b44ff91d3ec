#!/usr/bin/env python3
"""Holds constants.md to the sources: constants.py [--fix]

Fails if a comment below crates/ says "assumed" of something that is not in the list, or if a row names what is not there
or has another value. What a comment speaks of is the constant or field that follows it, else the function: `NAME`,
`Type::field` or `function()`. With --fix rows follow what has moved to another file of its crate or has another value."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CRATES = HERE.parent.parent / "crates"
LIST = HERE / "constants.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]*) \| `([^`]+)` \| ([^|]*) \| ([^|]*) \|$")
ASSUMED = re.compile(r"(?<!not )(?<!than )\b(assumed|assumption)\b", re.IGNORECASE)
CONST = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?const ([A-Z][A-Z0-9_]*)\s*:[^=]*=\s*(.*)")
FIELD = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?([a-z_]+): [^=]*,$")
STRUCT = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?struct (\w+)")
FUNCTION = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?(?:const )?fn (\w+)")


def sources():
    """The product's files, without those of tests, as paths below crates/ and lines."""
    for path in sorted(CRATES.glob("*/src/**/*.rs")):
        name = path.relative_to(CRATES).as_posix()
        # What reruns the papers is no product.
        if "tests" not in name and not name.startswith("cli/src/paper/"):
            lines = path.read_text().split("\n")
            tests = [at for at, line in enumerate(lines[:-1]) if re.match(r"#\[cfg\((all\()?test", line)]
            ends = [at for at in tests if lines[at + 1].endswith("{")]
            yield name, lines[: ends[0]] if ends else lines


def value_of(lines, at):
    """The value of the constant that begins on a line."""
    text = " ".join(line.strip() for line in lines[at : at + 12])
    return " ".join(CONST.match(text).group(2).split(";")[0].split())


def read(name, lines):
    """What the file has, name -> value, and which of it is said to be assumed."""
    found, assumed, comment, struct, function = {}, set(), [], "", ""
    for at, line in enumerate(lines):
        if line.strip().startswith(("//", "#[")):
            comment.append("" if line.strip().startswith("//!") else line.strip().lstrip("/ "))
            continue
        if match := STRUCT.match(line):
            struct = match.group(1)
        this = None
        if match := CONST.match(line):
            this = match.group(1)
            found[this] = value_of(lines, at)
        elif match := FUNCTION.match(line):
            function = match.group(1)
            this = f"{function}()"
            found[this] = "-"
        elif (match := FIELD.match(line)) and line.startswith("    ") and not line.startswith("     "):
            this = f"{struct}::{match.group(1)}"
            default = re.compile(rf"\b{match.group(1)}(?::| =) ([^;=]+?)(?:,? }}|,$|;|, )")
            defaults = [default.search(other) for other in lines[at + 1 :]]
            found[this] = next((value.group(1).strip() for value in defaults if value), "-")
        if ASSUMED.search(" ".join(comment)):
            assumed.add(this or f"{function}()")
        comment = []
    return {(name, key): value for key, value in found.items()}, {(name, key) for key in assumed}


def main():
    found, assumed = {}, set()
    for name, lines in sources():
        has, says = read(name, lines)
        found |= has
        assumed |= says
    text, rows, wrong = LIST.read_text().split("\n"), set(), []
    for at, line in enumerate(text):
        if not (match := ROW.match(line)):
            if line.startswith("| `"):
                wrong.append(f"line {at + 1} is no row: {line}")
            continue
        key, value, place, decides, source = match.groups()
        others = [name for name, other in found if other == key and name.split("/")[0] == place.split("/")[0]]
        if "--fix" in sys.argv and (place, key) not in found and len(others) == 1:
            place = others[0]
        if (place, key) not in found:
            wrong.append(f"{place} has no {key}; {', '.join(others) or 'no file of its crate'} has")
            continue
        actual = "`" + found[place, key] + "`" if found[place, key] != "-" else value
        if "--fix" in sys.argv:
            text[at] = f"| `{key}` | {actual} | `{place}` | {decides} | {source} |"
        elif actual != value:
            wrong.append(f"{place}: {key} is {actual}, not {value}")
        rows.add((place, key))
    wrong += [f"{place}: {key} is assumed, and not in the list" for place, key in sorted(assumed - rows)]
    if "--fix" in sys.argv:
        LIST.write_text("\n".join(text))
    for line in wrong:
        print(f"docs/internals/constants.md: {line}", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
