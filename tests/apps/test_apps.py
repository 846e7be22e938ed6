"""Each program of the table gives the same answer under the library as under glibc; `make test-apps` runs this."""

from __future__ import annotations

from collections.abc import Callable

from runner import Program


def test_program(judge: Callable[[Program, str], list[str]], program: Program, under: str) -> None:
    wrong = judge(program, under)
    assert not wrong, "\n".join(wrong)
