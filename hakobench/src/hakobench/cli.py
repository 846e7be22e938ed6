"""The `hakobench` command: a group that imports a command only when it is called, so that --help is quick."""

import importlib
import signal

import click

# name -> one line of help; the module hakobench.commands.<name> holds the click command `command`
COMMANDS = {
    "peers": "Fetch and build the allocators to compare with.",
    "run": "Run a suite under every allocator.",
    "compare": "Judge A against B by paired runs: GO, NO-GO or UNDECIDED.",
    "counts": "Count instructions, branches and cache misses per operation.",
    "trace": "Record the allocation calls of a program.",
    "replay": "Replay a recording under every allocator.",
    "locality": "Count the cache lines and pages that a recording's blocks lie on.",
    "advise": "Suggest a library for a program, by replaying its calls.",
    "why": "Say whether another allocator can make a program faster.",
    "report": "Write an HTML page, or the Markdown pages of bench/results, from raw results.",
}
# What only reports need; the extra `plots` installs them.
PLOT_MODULES = ("jinja2", "matplotlib")


def _end(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


class LazyGroup(click.Group):
    """Knows its commands by name and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        try:
            return importlib.import_module(f"hakobench.commands.{cmd_name}").command
        except ModuleNotFoundError as error:
            if error.name not in PLOT_MODULES:
                raise
            raise click.UsageError(
                f"'{cmd_name}' draws with {error.name}, which is not installed; pip install 'hakobench[plots]'"
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hakobench")
def main() -> None:
    """Compare memory allocators over workloads and real programs.

    SIGINT (Ctrl-C), SIGTERM and SIGHUP end the running program and keep the finished runs. A signal that was ignored
    at the start stays ignored: SIGHUP under nohup, SIGINT in the background of a script.

    Exit code of every command: 0 done; 1 something failed or lost; 2 bad arguments, or nothing could run; 130
    interrupted.
    """
    for ending in (signal.SIGTERM, signal.SIGHUP):  # Python does the same for SIGINT
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, _end)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        click.echo("SIGINT is ignored, as it was at the start; SIGTERM ends this command", err=True)
