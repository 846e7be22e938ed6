"""The site's table of contents has every page."""

import pathlib
import re

import site_pages

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listed(text: str) -> list[str]:
    return re.findall(r"(?m)^ +- (?:[^:\n]+: )?([\w/.-]+\.md)$", text[text.index("\nnav:") :])


def test_every_page_is_in_the_contents():
    pages = sorted(site for file, site in site_pages.pages(ROOT).items() if file.suffix == ".md")
    contents = listed((ROOT / "mkdocs.yml").read_text())
    assert sorted(contents) == pages, "mkdocs.yml lists the pages of the site"


def test_a_page_that_is_not_in_the_contents_is_noticed():
    assert listed("a: x.md\nnav:\n  - A: a.md\n  - B:\n      - b/c.md\n") == ["a.md", "b/c.md"]


def test_fences_and_bars_are_as_the_sites_markdown_reads_them():
    assert site_pages.for_the_site("```c link\nint x;\n```\n") == "```c\nint x;\n```\n"
    assert site_pages.for_the_site("| `a\\|b <F>` | `c` |\n`a\\|b`\n") == "| <code>a&#124;b &lt;F></code> | `c` |\n`a\\|b`\n"


def test_links_to_sources_become_text(tmp_path):
    for name in ("README.md", "docs/a.md", "docs/sub/b.md", "src/x.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    known = {tmp_path / "README.md": "index.md", tmp_path / "docs/a.md": "a.md", tmp_path / "docs/sub/b.md": "sub/b.md"}
    text = "[`x`](src/x.c) [a](docs/a.md#one) [u](https://example.org) `[a](docs/a.md)`\n```\n[a](docs/a.md)\n```\n"
    assert site_pages.linked(text, tmp_path / "README.md", known) == (
        "`x` [a](a.md#one) [u](https://example.org) `[a](docs/a.md)`\n```\n[a](docs/a.md)\n```\n"
    )
    assert site_pages.linked("[a](../a.md) [r](../../README.md)", tmp_path / "docs/sub/b.md", known) == "[a](../a.md) [r](../index.md)"
