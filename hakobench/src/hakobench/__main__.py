"""Entry of `python -m hakobench`."""

from hakobench.cli import main

main(prog_name="hakobench")
