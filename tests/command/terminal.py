"""A terminal that a test can read: what a program has written to it, as it stands on the screen."""

from __future__ import annotations

import re

SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


class Terminal:
    """Interprets the sequences that `hakozuna top` and rich use, and refuses others. It notes when a line was wider than the screen, or when
    the screen scrolled: then something of a frame was lost."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.rows = [""] * height
        self.at_row = self.at_column = 0
        self.lost: list[str] = []
        self.colours = 0  # sequences that set one
        self.alternate = False
        self.rest = ""

    def feed(self, data: bytes) -> None:
        text = self.rest + data.decode(errors="ignore")
        self.rest = ""
        while text:
            if text[0] == "\x1b":
                found = SEQUENCE.match(text)
                if found is None:
                    assert len(text) < 20, f"unknown sequence {text[:20]!r}"
                    self.rest = text
                    return
                self.obey(found[1], found[2])
                text = text[found.end() :]
            else:
                self.put(text[0])
                text = text[1:]

    def obey(self, numbers: str, letter: str) -> None:
        if letter == "H" and numbers in ("", "1;1"):
            self.at_row = self.at_column = 0
        elif letter == "J" and numbers in ("", "2"):
            first = 0 if numbers else self.at_row
            if not numbers:
                self.rows[first] = self.rows[first][: self.at_column]
                first += 1
            self.rows[first:] = [""] * (self.height - first)
        elif letter == "K" and numbers == "":
            self.rows[self.at_row] = self.rows[self.at_row][: self.at_column]
        elif letter == "m":
            self.colours += numbers not in ("", "0")
        elif letter in "hl" and numbers == "?1049":
            self.alternate = letter == "h"
        else:
            assert letter in "hl" and numbers == "?25", f"unknown sequence {numbers}{letter}"

    def put(self, character: str) -> None:
        if character == "\r":
            self.at_column = 0
        elif character == "\n":
            self.at_row += 1
            if self.at_row == self.height:
                self.lost.append(self.rows.pop(0))
                self.rows.append("")
                self.at_row -= 1
        else:
            if self.at_column == self.width:
                self.lost.append(f"wider than the screen: {self.rows[self.at_row]}")
                self.at_column = 0
            row = self.rows[self.at_row].ljust(self.at_column)
            self.rows[self.at_row] = row[: self.at_column] + character + row[self.at_column + 1 :]
            self.at_column += 1

    @property
    def lines(self) -> list[str]:
        return [row.rstrip() for row in self.rows]
