"""docs/failure.md lists every text that ends a program, with the header that defines it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/failure.md"
TEXT = re.compile(r'#define HZ3?_TEXT_\w+ +"([^"]+)"')


def texts_of_sources() -> set[tuple[str, str]]:
    """(text, header)."""
    headers = (ROOT / "src").rglob("*.h")
    return {(text, path.relative_to(ROOT).as_posix()) for path in headers for text in TEXT.findall(path.read_text())}


def texts_of_page(page: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^\| `([^`]+:)` \| `(src/[^`]+)` \|", page, re.MULTILINE))


def test_page_lists_the_texts_of_the_sources():
    assert texts_of_page(PAGE.read_text()) == texts_of_sources()
    assert len(texts_of_sources()) > 5


def test_a_text_that_the_page_lacks_is_noticed():
    page = PAGE.read_text().replace("double free of block:", "free of block:")
    assert texts_of_page(page) != texts_of_sources()


def test_every_text_is_used():
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.c"))
    names = {name for path in (ROOT / "src").rglob("*.h") for name in re.findall(r"#define (HZ3?_TEXT_\w+)", path.read_text())}
    assert {name for name in names if name not in sources} == set()
