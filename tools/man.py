#!/usr/bin/env python3
"""Writes the man pages from what they repeat: `make docs` calls it. With --check it writes nothing, and exits with 1 when
a page is not what it would write.

    packaging/man/hakozuna.7.in    docs/usage.md, docs/settings.md and the first words of README.md
    packaging/man/hz_malloc.3.in   the comments and prototypes of the public header
    hakobench/hakobench.1          the help texts of hakobench's commands; needs hakobench's environment

The build puts the version into the first two.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = "include/hakozuna/hakozuna.h"
VERSION = "hakozuna @PROJECT_VERSION@"
LINE_COLUMNS = 72  # of a synopsis


# ---- text to roff ----------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Text without markup."""
    text = text.replace("\\", "\\e").replace("@", "\\[at]")  # the build replaces @names@
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text)


def literal(text: str) -> str:
    """What is typed or printed: its hyphens can be copied."""
    return plain(text).replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")


INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\*(?P<slant>[^*\s][^*]*)\*|\[(?P<text>[^]]*)\]\((?P<link>[^)]*)\)")


def inline(text: str) -> str:
    """A paragraph of Markdown. Of a link its text stays."""
    out, end = [], 0
    for found in INLINE.finditer(text):
        out.append(plain(text[end : found.start()]) if end else plain(text[: found.start()]))
        end = found.end()
        if found["code"]:
            out.append(f"\\fB{literal(found['code'])}\\fR")
        elif found["bold"]:
            out.append(f"\\fB{inline(found['bold'])}\\fR")
        elif found["slant"]:
            out.append(f"\\fI{plain(found['slant'])}\\fR")
        else:
            out.append(inline(found["text"]))
    return "".join([*out, plain(text[end:])])


def cells(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def table(rows: list[str]) -> Iterator[str]:
    """A list: the first cell of a row is the tag; the others follow with the names of their columns."""
    heads, *bodies = [cells(row) for row in rows if not re.fullmatch(r"[|\s:-]+", row)]
    for first, *others in bodies:
        yield ".TP"
        yield inline(first) or "\\&"
        named = [(head, cell) for head, cell in zip(heads[1:], others) if cell]
        texts = [cell if len(heads) == 2 or not head else f"{head}: {cell}" for head, cell in named]
        yield inline("; ".join(text.rstrip(".") for text in texts) + ".")


BULLET = re.compile(r"(\*|\d+\.) +")


def markdown(text: str, level: int = 2) -> Iterator[str]:
    """The lines of roff for a page of Markdown whose sections have headings of `level`."""
    for block in re.findall(r"^```.*?^```$|(?:(?!^```).+\n?)+", text, re.MULTILINE | re.DOTALL):
        for part in [block] if block.startswith("```") else re.split(r"\n\s*\n", block):
            part = part.strip("\n")
            lines = part.split("\n")
            if part.startswith("```"):
                yield from (".PP", ".nf", ".RS 4", *map(literal, lines[1:-1]), ".RE", ".fi")
            elif part.startswith("#"):
                marks, _, title = lines[0].partition(" ")
                yield f".{'SH' if len(marks) == level else 'SS'} {plain(title).upper() if len(marks) == level else plain(title)}"
                yield from markdown("\n".join(lines[1:]), level) if lines[1:] else ()
            elif part.startswith("|"):
                yield from table(lines)
            elif BULLET.match(part):
                for item in re.split(r"\n(?=(?:\*|\d+\.) )", part):
                    mark = BULLET.match(item)
                    yield ".IP \\(bu 2" if mark[1] == "*" else f".IP {mark[1]} 3"
                    yield inline(" ".join(item[mark.end() :].split()))
            elif part.strip():
                yield ".PP"
                yield inline(" ".join(part.split()))


# ---- hakozuna(7) -----------------------------------------------------------------------------------


def overview_page() -> str:
    """hakozuna(7): the page that somebody needs who has the library and no sources."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    usage = (ROOT / "docs/usage.md").read_text(encoding="utf-8")
    settings = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    what = readme.split("\n\n")[1]
    lines = [
        f'.TH HAKOZUNA 7 "" "{VERSION}"',
        ".nh",
        ".SH NAME",
        "hakozuna \\- memory allocator for programs with many threads",
        ".SH SYNOPSIS",
        ".nf",
        ".B hakozuna \\fIprogram\\fR [\\fIargument\\fR ...]",
        ".B LD_PRELOAD=libhakozuna.so.0 \\fIprogram\\fR",
        ".fi",
        ".SH DESCRIPTION",
        inline(" ".join(what.split())),
        ".PP",
        "To undo a preload, unset \\fBLD_PRELOAD\\fR, or start the program without \\fBhakozuna\\fR(1). Nothing else is changed on the machine.",
        *markdown(usage[usage.index("\n## ") :]),
        *markdown(settings[settings.index("\n## ") :]),
        ".SH SEE ALSO",
        "\\fBhakozuna\\fR(1), \\fBhz_malloc\\fR(3), \\fBhakobench\\fR(1), \\fBmalloc\\fR(3), \\fBld.so\\fR(8)",
    ]
    return "\n".join(lines) + "\n"


# ---- hz_malloc(3) ----------------------------------------------------------------------------------

ITEM = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<code>(?:HZ_API|struct|enum|typedef)[^;{]*(?:\{[^}]*\})?[^;{]*;)", re.DOTALL)
ATTRIBUTE = re.compile(r"\s*\bHZ_(?:ATTR_\w+|API)\b(?:\([^)]*\))?\s*")
PAGE_BREAK = re.compile(r"-{4,}\s*(?P<title>.*?)\s*-{4,}", re.DOTALL)
FUNCTION = re.compile(r"\b(hz_\w+)\(")


def comment_text(comment: str) -> str:
    return " ".join(line.strip().lstrip("*").strip() for line in comment.strip().split("\n")).strip()


def marked(comment: str) -> str:
    return re.sub(r"`([^`]+)`", r"\\fI\1\\fR", plain(comment))


def folded(code: str) -> str:
    """A prototype in lines that fit."""
    words = ATTRIBUTE.sub(" ", code).split()
    text = " ".join(words).replace(" ;", ";")
    return text if len(text) <= LINE_COLUMNS else text.replace(", ", ",\n    ", text.count(", "))


def declarations(header: str) -> Iterator[tuple[str, str, list[str]]]:
    """(title of the section, comment, what it declares) of each commented group of the header."""
    body = header[header.index('extern "C" {') : header.rindex("#ifdef __cplusplus")]
    body = re.sub(r"(?m)^\s*#.*(?:\\\n.*)*$", "", body)
    title, comment, group = "", "", []
    types: list[str] = []  # without a comment of their own: they belong to the function that follows
    for found in ITEM.finditer(body):
        code = found["code"]
        if code:
            is_next = not code.startswith("HZ_API") and any(one.startswith("HZ_API") for one in group)
            (types if is_next else group).append(code)
            continue
        if group:
            yield title, comment, group
            comment, group, types = "", types, []
        heading = PAGE_BREAK.search(found["comment"])
        if heading:
            title = comment_text(heading["title"])
        else:
            comment = comment_text(found["comment"])
    if group or types:
        yield title, comment, group + types


def functions(header: str) -> list[str]:
    return [name for code in re.findall(r"(?m)^HZ_API [^;]*;", header) for name in FUNCTION.findall(ATTRIBUTE.sub(" ", code))[:1]]


def code_lines(code: str) -> Iterator[str]:
    if "{" in code and not code.startswith("HZ_API"):
        yield from (f"\\fB{literal(line)}\\fR" for line in code.split("\n"))
    else:
        yield from (f"\\fB{literal(line)}\\fR" for line in folded(code).split("\n"))


def api_page() -> str:
    """hz_malloc(3): every function of the header with its comment."""
    header = (ROOT / HEADER).read_text(encoding="utf-8")
    opening = comment_text(header[header.index("/*") + 2 : header.index("*/")])
    rules = opening[opening.index("Thread rules:") :]
    names = functions(header)
    lines = [
        f'.TH HZ_MALLOC 3 "" "{VERSION}"',
        ".nh",
        ".SH NAME",
        f"{', '.join(names)} \\- the hakozuna memory allocator under its own names",
        ".SH SYNOPSIS",
        ".nf",
        "\\fB#include <hakozuna/hakozuna.h>\\fR",
        ".PP",
        "\\fIcc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs hakozuna)\\fR",
        ".fi",
        ".SH DESCRIPTION",
        "Linking or preloading the library replaces malloc, free and the C++ operators of the whole program, which needs nothing of this header.",
    ]
    for rule in re.split(r" (?=Units:|Errors:)", rules):
        lines += [".PP", plain(rule)]
    last = ""
    for title, comment, group in declarations(header):
        if title != last:
            lines.append(f'.SH "{plain(re.sub(r" *[(].*", "", title)).upper()}"')
            last = title
        lines += [".PP", ".nf", *(line for code in group for line in code_lines(code)), ".fi", ".RS 4", marked(comment), ".RE"]
    lines += [".SH SEE ALSO", "\\fBhakozuna\\fR(7), \\fBmalloc\\fR(3), \\fBposix_memalign\\fR(3), \\fBmallinfo2\\fR(3)"]
    return "\n".join(line for line in lines if line) + "\n"


# ---- hakobench(1) ----------------------------------------------------------------------------------


def help_text(command) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", (command.help or "").strip()):
        yield from (".PP", literal(" ".join(block.replace("\b", "").split())))


def options(command, context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[1]:
            yield from (".TP", f"\\fB{literal(record[0])}\\fR", literal(" ".join(record[1].split())))


def bench_page() -> str:
    """hakobench(1): the help of every command."""
    import click
    from hakobench.cli import main

    context = click.Context(main, info_name="hakobench")
    lines = [
        '.TH HAKOBENCH 1 "" "hakobench"',
        ".nh",
        ".SH NAME",
        "hakobench \\- compare memory allocators",
        ".SH SYNOPSIS",
        "\\fBhakobench\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR ...]",
        ".SH DESCRIPTION",
        *list(help_text(main))[1:],
        ".SH COMMANDS",
    ]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        below = click.Context(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(below))
        lines += [f".SS {name}", f"\\fBhakobench {name}\\fR {literal(usage)}", *help_text(command), *options(command, below)]
    lines += [".SH SEE ALSO", "\\fBhakozuna\\fR(7), \\fBperf\\fR(1), \\fBvalgrind\\fR(1)"]
    return "\n".join(line for line in lines if line) + "\n"


PAGES = {
    "packaging/man/hakozuna.7.in": overview_page,
    "packaging/man/hz_malloc.3.in": api_page,
    "hakobench/hakobench.1": bench_page,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes the man pages.")
    parser.add_argument("--check", action="store_true", help="only say which pages differ")
    options = parser.parse_args(arguments)
    differing = []
    for path, make in PAGES.items():
        file, text = ROOT / path, make()
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            differing.append(path)
            if not options.check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    if options.check and differing:
        print(f"man: {', '.join(differing)}: not as their sources say; 'make docs' writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
