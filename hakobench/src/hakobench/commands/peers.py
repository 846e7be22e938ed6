"""`hakobench peers`: fetches and builds the allocators to compare with, and shows which there are."""

import click
import rich.console
import rich.table
import rich.text

from hakobench import peers

_STATES = {
    "system": "installed",
    "cached": "ready",
    "replaced": "replaced",
    "missing": "not here",
    "stale": "out of date",
    "unavailable": "unavailable",
}
_HASH_DIGITS = 12


def _names(statuses: list[peers.Status]) -> set[str]:
    return {status.recipe.name for status in statuses}


def _table(statuses: list[peers.Status]) -> rich.table.Table:
    table = rich.table.Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "version", "source", "sha256", "state"):
        table.add_column(heading, overflow="fold")
    for status in statuses:
        peer = status.peer
        row = [
            status.recipe.name + (" (optional)" if status.recipe.optional else ""),
            peer.version if peer else status.recipe.shown_version or status.recipe.version.partition("+")[0],
            (peer.source if peer else status.recipe.origin).removesuffix(status.recipe.version).rstrip(),
            peer.sha256[:_HASH_DIGITS] if peer else "",
        ]
        state = rich.text.Text(_STATES[status.state], style="green" if peer else "red")
        table.add_row(*map(rich.text.Text, row), state)
    return table


def _print_remarks(statuses: list[peers.Status], console: rich.console.Console) -> None:
    """Prints a line for each remark below the table, because paths do not fit into a column."""
    for status in statuses:
        remarks = [status.remark] if status.remark else []
        if status.peer and status.peer.environment:
            words = " ".join(f"{key}={value}" for key, value in status.peer.environment.items())
            why = status.recipe.environment_why.strip()
            remarks.append(f"runs with {words}: {why}")
        for remark in remarks:
            console.print(f"{status.recipe.name}: {remark}", markup=False, highlight=False, soft_wrap=True)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "only_list", is_flag=True, help="Show the peers of this machine; fetch and build nothing.")
@click.option("--require", "required", metavar="NAME", multiple=True, help="Exit code 1 when this peer is missing.")
def command(names: tuple[str, ...], only_list: bool, required: tuple[str, ...]) -> None:
    """Fetch and build the allocators to compare with, or only NAMES.

    apt-get, pip and cargo fetch the libraries into .cache/hakobench (or $HAKOBENCH_CACHE). Each library is tested; an
    unavailable one is named and left out. TCMALLOC_SO, MIMALLOC_SO, JEMALLOC_SO (and so on) name a library to use
    instead.
    """
    console = rich.console.Console()
    try:
        peers.choose(required)
        if only_list:
            statuses = [peers.inspect(recipe) for recipe in peers.choose(names or None, optional=True)]
        else:
            statuses = peers.ensure(names or None, console)
            statuses += peers.ensure([name for name in required if name not in _names(statuses)], console)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    console.print(_table(statuses))
    _print_remarks(statuses, console)
    here = _names([status for status in statuses if status.peer])
    lost = sorted((set(required) | ({peers.GLIBC} & _names(statuses))) - here)
    if lost:
        raise click.ClickException(f"required, but not there: {', '.join(lost)}")
