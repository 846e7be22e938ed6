#!/usr/bin/env python3
"""Builds the site of docs/, hakobench/docs/, and the pages and pictures of results into build/site with mkdocs (mkdocs.yml): `make site`.

The pages are written for the repository, where they link to sources too. The site has no sources, so such a link becomes
plain text. README.md becomes the first page. A link to a page or a heading that is missing ends the build.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = {"docs": "", "hakobench/docs": "hakobench/", "bench/results": "results/", "bench/documents": "documents/"}  # and their paths in the site
STYLE = "packaging/site.css"
TOP_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md"}
DOORS = "documentation.md"  # docs/README.md: mkdocs takes a README.md beside index.md for the same page
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^][]|\[[^]]*\])*)\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def pages(root: pathlib.Path) -> dict[pathlib.Path, str]:
    """The file of each page, and its path in the site."""
    found = {root / name: site for name, site in TOP_PAGES.items()}
    for folder, site in FOLDERS.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".md", ".svg", ".json"}:
                found[path] = DOORS if path == root / "docs/README.md" else site + path.relative_to(root / folder).as_posix()
    found[root / STYLE] = "assets/site.css"
    return found


def linked(text: str, page: pathlib.Path, known: dict[pathlib.Path, str]) -> str:
    """The text with the links of the site."""
    own = pathlib.PurePosixPath(known[page]).parent

    def link(found: re.Match) -> str:
        target, _, anchor = found["target"].partition("#")
        if "://" in target or not target:
            return found.group(0)
        file = (page.parent / target).resolve()
        if file not in known:
            if not file.exists():
                raise ValueError(f"{page.name}: no file '{target}'")
            return found["text"]
        up = "../" * len(own.parts)
        return f"{found['image']}[{found['text']}]({up}{known[file]}{'#' + anchor if anchor else ''})"

    parts = CODE.split(text)
    # a link's text can hold code, so the parts are put together again with marks in place of the code
    marks = [part for part in parts[1::2]]
    bare = "".join(part if index % 2 == 0 else f"\0{index // 2}\0" for index, part in enumerate(parts))
    return re.sub(r"\0(\d+)\0", lambda found: marks[int(found[1])], LINK.sub(link, bare))


def for_the_site(text: str) -> str:
    """As the site's Markdown reads it: a fence names only a language, and code in a table has its bars as entities."""
    text = re.sub(r"(?m)^(```\w+) [^\n]+$", r"\1", text)

    def row(found: re.Match) -> str:
        return re.sub(r"`([^`\n]*\\\|[^`\n]*)`", code, found[0])

    def code(found: re.Match) -> str:
        escaped = found[1].replace("&", "&amp;").replace("<", "&lt;").replace("\\|", "&#124;")
        return f"<code>{escaped}</code>"

    return re.sub(r"(?m)^\|.*$", row, text)


def write_pages(root: pathlib.Path, out: pathlib.Path) -> None:
    known = pages(root)
    shutil.rmtree(out, ignore_errors=True)
    for file, site in known.items():
        path = out / site
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            path.write_text(for_the_site(linked(file.read_text(encoding="utf-8"), file, known)), encoding="utf-8")
        else:
            shutil.copyfile(file, path)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds the site of the pages of the repository.")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    try:
        write_pages(root, root / "build/site-pages")
    except ValueError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    mkdocs = ROOT / "build/packaging-venv/bin/mkdocs"
    if not mkdocs.is_file():
        print("site: no mkdocs; 'make site' installs it", file=sys.stderr)
        return 2
    order = [mkdocs, "build", "--strict", "-f", root / "mkdocs.yml"]  # with --quiet it would not count what it warns of
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(order, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
