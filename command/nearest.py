#!/usr/bin/env python3
"""What somebody may have meant by a word that does not exist: for the command's shell script, and for the option parsers of the other
files. Called as a program, it prints the end of a message: `nearest.py WORD CANDIDATE...`."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable
from typing import NoReturn


def question(word: str, candidates: Iterable[str]) -> str:
    """" (did you mean 'x'?)", or nothing if no candidate is near."""
    near = difflib.get_close_matches(word, sorted(set(candidates)), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


class Parser(argparse.ArgumentParser):
    """Names what is near a wrong option or choice. Its subcommands are of this class too."""

    commands: argparse._SubParsersAction | None = None

    def add_subparsers(self, **keywords: str | bool) -> argparse._SubParsersAction:
        self.commands = super().add_subparsers(**keywords)
        return self.commands

    def parse_args(self, args: list[str] | None = None, namespace: argparse.Namespace | None = None) -> argparse.Namespace:
        """argparse's own would let the parser above the subcommand complain, whose options are others."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            parser = self.commands.choices.get(found.command, self) if self.commands is not None else self
            parser.error(f"unrecognized arguments: {' '.join(left)}")
        return found

    def error(self, message: str) -> NoReturn:
        if found := re.fullmatch(r"unrecognized arguments: (--[\w-]+).*", message, re.DOTALL):
            message += question(found[1], self._option_string_actions)
        elif found := re.search(r"invalid choice: '?([^' ]*)'? \((?:choose from|maybe you meant) (.*)\)", message):
            message += question(found[1], re.findall(r"[\w-]+", found[2]))
        super().error(message)


if __name__ == "__main__":
    print(question(sys.argv[1], sys.argv[2:]), end="")
