"""The lines of docs/install.md that link a program work with musl and for arm64. Programs for arm64 run under qemu-user."""

import dataclasses
import pathlib
import re
import shlex

import pytest
from installing import CONFIG, PROGRAMS, ROOT, run

pytestmark = pytest.mark.slow


@dataclasses.dataclass
class Platform:
    preset: str
    compiler: str
    emulator: str = ""


SHARED, OBJECT = 0, 1  # which of the two lines
MUSL = Platform("musl", "musl-gcc")
# 39 bits of address space, as in the preset
ARM64 = Platform("arm64", "aarch64-linux-gnu-gcc", "qemu-aarch64 -R 0x8000000000 -L /usr/aarch64-linux-gnu")


def install_lines() -> list[str]:
    """The first two command lines of the section about linking: the shared library, and the object."""
    section = (ROOT / "docs/install.md").read_text().partition("\n## Link\n")[2]
    lines = re.findall(r"`(cc program\.c [^`]+)` \|$", section.partition("\n## ")[0], re.MULTILINE)[:2]
    assert len(lines) == 2 and "-lhakozuna" in lines[0] and "hakozuna.o" in lines[1]
    return lines


def build(platform: Platform) -> pathlib.Path:
    run("cmake", "--preset", platform.preset, "-S", ROOT)
    folder = ROOT / "build" / platform.preset
    run("cmake", "--build", folder, "--target", "hakozuna_hz3_scale", "hakozuna_hz3_scale_static")
    return folder / "lib"


@pytest.mark.parametrize(
    ("form", "options"),
    [(SHARED, ""), (SHARED, "-flto"), (OBJECT, ""), (OBJECT, "-flto"), (OBJECT, "-static"), (OBJECT, "-static-pie"), (OBJECT, "-flto -static")],
)
@pytest.mark.parametrize("platform", [MUSL, ARM64], ids=["musl", "arm64"])
def test_install_line(platform, form, options, tmp_path):
    lib = build(platform)
    line = install_lines()[form].replace("/usr/local/lib", str(lib)) + (f" -Wl,-rpath,{lib}" if form == SHARED else "")
    words = shlex.split(line.replace("cc program.c", f"{platform.compiler} {options} -O2 -I{ROOT}/include {PROGRAMS}/ours.c", 1))
    run(*words, "-o", tmp_path / "ours")
    assert run(*platform.emulator.split(), tmp_path / "ours").startswith(CONFIG)
