"""The wheels, each made from its source archive and installed into an empty environment."""

import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest
from installing import CONFIG, ROOT, run

pytestmark = pytest.mark.slow
LANES = ["hz3-scale", "hz3-fast", "hz3-home", "hz3-p32", "hz3-percpu", "hz4", "hz4-home"]


class Environment:
    """A virtual environment, and how to call its programs as a user outside of the sources would."""

    def __init__(self, folder: pathlib.Path):
        self.bin = folder / "bin"
        run(sys.executable, "-m", "venv", folder)

    def install(self, *what: object) -> None:
        run(self.bin / "python", "-m", "pip", "install", "--quiet", *what)

    def call(self, folder: pathlib.Path, *words: object, **variables: str) -> subprocess.CompletedProcess:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return subprocess.run([self.bin / words[0], *map(str, words[1:])], cwd=folder, env=kept | variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Makes the source archive of a project, and from that archive its wheel."""
    environment = Environment(tmp_path_factory.mktemp("build"))
    environment.install("build")

    def build(project: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
        out = tmp_path_factory.mktemp("dist")
        run(environment.bin / "python", "-m", "build", "--outdir", out, project)
        return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))

    return build


@pytest.fixture(scope="module")
def wheels(build) -> tuple[pathlib.Path, pathlib.Path]:
    return build(ROOT)


@pytest.fixture(scope="module")
def user(wheels, tmp_path_factory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("user"))
    environment.install("--no-index", wheels[1])
    return environment


def test_the_wheel_has_the_libraries(wheels):
    with zipfile.ZipFile(wheels[1]) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        sizes = {name: archive.getinfo(name).file_size for name in found}
    names = ["hakozuna", *(f"hakozuna-{lane}" for lane in LANES[1:])]
    tools = {f"hakozuna/lib/hakozuna/{path.name}" for path in (ROOT / "command").glob("*.py")}
    assert found == {"hakozuna/__init__.py", "hakozuna/__main__.py", "hakozuna/bin/hakozuna", *tools, *(f"hakozuna/lib/lib{name}.so.0" for name in names)}
    assert "-py3-none-linux_" in wheels[1].name
    assert sizes["hakozuna/lib/libhakozuna.so.0"] < 600 << 10, "with its debug information it has megabytes"


def test_the_source_archive_has_no_more_than_it_needs(wheels):
    with tarfile.open(wheels[0]) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert tops == {"CMakeLists.txt", "LICENSE", "PKG-INFO", "cmake", "command", "include", "packaging", "pyproject.toml", "src"}


def test_a_program_runs_under_it(user, tmp_path):
    show = {"HAKOZUNA_SHOW_CONFIG": "2"}
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "printf", "%s|", "two words", "-l", "", **show)
    assert (ran.returncode, ran.stdout) == (0, "two words|-l||")
    assert CONFIG in ran.stderr
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "-l", "hz4", "true", **show)
    assert "\nengine=hz4 lane=default " in ran.stderr
    assert user.call(tmp_path, "python", "-m", "hakozuna", "run", "false").returncode == 1
    for words in (["python", "-m", "hakozuna"], ["hakozuna"]):
        lines = user.call(tmp_path, *words, "lanes").stdout.splitlines()
        assert [line.split()[0] for line in lines] == LANES
    names = "import hakozuna; print(*hakozuna.lanes(), hakozuna.library('hz4').name)"
    assert user.call(tmp_path, "python", "-c", names).stdout.split() == [*LANES, "libhakozuna-hz4.so.0"]
    assert user.call(tmp_path, "hakozuna", "printf", "%s|", "two words", "-l", "").stdout == "two words|-l||"
    path = user.call(tmp_path, "python", "-m", "hakozuna", "path").stdout.strip()
    shown = subprocess.run(["true"], env={"LD_PRELOAD": path, "PATH": os.environ["PATH"], **show}, capture_output=True, text=True, check=True)
    assert CONFIG in shown.stderr


def test_a_program_is_asked(user, tmp_path):
    home = {"XDG_RUNTIME_DIR": str(tmp_path)}
    ask = 'python -m hakozuna stats $$ --part totals && python -m hakozuna top $$ --once --interval 0.1 && python -m hakozuna profile $$ --no-symbols'
    script = f"PATH={user.bin}:$PATH; {ask}"
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "--watch", "--profile", "bash", "-c", script, **home)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("\nheld ") == 2 and "bash, process " in ran.stdout
    (tmp_path / "hakozuna").chmod(0o755)
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "--watch", "true", **home)
    assert ran.returncode == 2 and "is not what it should be" in ran.stderr


def test_what_is_wrong_is_named(user, tmp_path):
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "-l", "hz9", "true")
    assert ran.returncode == 2 and ran.stderr.startswith(f"hakozuna: no lane 'hz9' (did you mean 'hz4'?); there are: {' '.join(LANES)} in ")
    ran = user.call(tmp_path, "python", "-m", "hakozuna", "run", "no-such-program")
    assert (ran.returncode, ran.stderr) == (127, "hakozuna: no program 'no-such-program' in PATH, and no command of hakozuna\n")


@pytest.fixture(scope="module")
def hakobench(build, wheels, tmp_path_factory) -> Environment:
    """Without the extra `plots`, beside the wheel of the allocator."""
    environment = Environment(tmp_path_factory.mktemp("hakobench"))
    environment.install(build(ROOT / "hakobench")[1], wheels[1])
    return environment


def test_hakobench_measures_outside_of_the_sources(hakobench, tmp_path):
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    few = ["--allocators", "glibc,hakozuna,hz4", "--rounds", "1", "--scale", "0.01", "--force"]
    ran = hakobench.call(tmp_path, "hakobench", "run", "smoke", *few, **home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (results,) = (tmp_path / "hakobench-results").glob("smoke-*.csv")
    text = results.read_text()
    assert f"{CONFIG}0." in text and "engine=hz4 lane=default" in text and "hakobench-0." in text
    assert str(tmp_path) not in text
    ran = hakobench.call(tmp_path, "hakobench", "trace", "--output", "ls.hakotrace", "--", "ls", **home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "ls.hakotrace").stat().st_size > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "hakobench-results", "ls.hakotrace"]


def test_hakobench_says_what_it_lacks(hakobench, tmp_path):
    ran = hakobench.call(tmp_path, "hakobench", "report", "x.csv")
    assert ran.returncode == 2
    assert "'report' draws with " in ran.stderr and "pip install 'hakobench[plots]'" in ran.stderr
    ran = hakobench.call(tmp_path, "hakobench", "compare", "glibc", "git:HEAD")
    assert ran.returncode == 2
    assert "'git:HEAD' is a commit of hakozuna, and this hakobench is not in its repository" in ran.stderr
    ran = hakobench.call(tmp_path, "hakobench", "run", "smoke", "--force", XDG_CACHE_HOME=str(tmp_path / "cache"), CC="no-such-cc")
    assert ran.returncode == 2
    assert "cannot start 'no-such-cc': No such file or directory" in ran.stderr
