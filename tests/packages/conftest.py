"""Ways to get hakozuna into a program, each from an installed tree or from the sources, as a user would.

A way is right if the program prints the configuration string, and if hz_free accepts blocks of malloc and strdup
(programs/ours.c). `make test-packages` runs all of them, `make test-deep` those that are not marked as slow.
"""

from __future__ import annotations

import pathlib

import pytest
from installing import BUILD, install, make_packages


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What `cmake --install` writes."""
    assert (BUILD / "lib/libhakozuna.a").is_file(), "nothing to install; `make libs` builds it"
    return install(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def packages(request, tmp_path_factory) -> dict[str, pathlib.Path]:
    """The system's packages by name, for a module that has PRESET and name_of()."""
    made = make_packages(request.module.PRESET, tmp_path_factory.mktemp("packages"))
    return {request.module.name_of(path): path for path in made}


@pytest.fixture(scope="module")
def unpacked(packages, request, tmp_path_factory) -> pathlib.Path:
    """All of them in an empty folder, for a module that has unpack()."""
    folder = tmp_path_factory.mktemp("root")
    for package in packages.values():
        request.module.unpack(package, folder)
    return folder
