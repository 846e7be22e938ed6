"""Packs the programs that hakobench measures with, which it builds when they are first needed.

In the repository their sources lie in ../bench, in a source archive in sources/, in a wheel in hakobench/sources/.
"""

import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("workloads", "trace", "apps")


def folder_of(root: pathlib.Path) -> pathlib.Path:
    """Where the sources of the programs are. Raises FileNotFoundError."""
    folders = (root / "sources", root.parent / "bench")
    for folder in folders:
        if all((folder / name).is_dir() for name in PROGRAMS):
            return folder
    raise FileNotFoundError(f"no folder of {', '.join(map(str, folders))} has the sources of the programs: {', '.join(PROGRAMS)}")


class Programs(BuildHookInterface):
    """Adds them to the source archive and to the wheel. An editable installation finds them in the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        folder = folder_of(pathlib.Path(self.root))
        place = "sources" if self.target_name == "sdist" else "hakobench/sources"
        build_data["force_include"].update({str(folder / name): f"{place}/{name}" for name in PROGRAMS})
