"""What others write to use the library in containers and services: each file by a program that knows its form, and that
program with a file that is wrong."""

import pathlib
import re
import shutil
import subprocess

import pytest
from installing import ROOT, run
from tools_venv import tool

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "packaging/examples"
DOCKERFILE = ROOT / "packaging/docker/Dockerfile"
WORKFLOW = ROOT / ".github/workflows/ci.yml"


def refused(*command: object) -> str:
    """What a command says that has to fail."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode != 0, "this should have failed"
    return done.stdout + done.stderr


def changed(path: pathlib.Path, folder: pathlib.Path, old: str, new: str) -> pathlib.Path:
    text = path.read_text()
    assert old in text
    (folder / path.name).write_text(text.replace(old, new))
    return folder / path.name


def test_dockerfile(tmp_path):
    run(tool("hadolint"), DOCKERFILE)
    assert "DL4000" in refused(tool("hadolint"), changed(DOCKERFILE, tmp_path, "COPY . /src\n", "COPY . /src\nMAINTAINER me\n"))


def test_dockerfile_takes_what_is_in_the_context():
    ignore = (ROOT / ".dockerignore").read_text().split()
    assert ignore[0] == "*"
    assert all((ROOT / line.removeprefix("!/")).exists() for line in ignore[1:])
    assert {"!/CMakeLists.txt", "!/cmake", "!/include", "!/packaging", "!/src"} <= set(ignore)


def test_two_line_recipes(tmp_path):
    """The lines of the page make Dockerfiles; each file that they copy is one that an image of ours has."""
    page = (ROOT / "docs/containers.md").read_text()
    recipes = re.findall(r"`(COPY --from=\S+ (\S+) \S+)` and `(ENV [^`]+)`", page)
    assert len(recipes) == 2
    for base, (copy, path, env) in zip(("debian:bookworm-slim", "alpine:3.22"), recipes, strict=True):
        file = tmp_path / "Dockerfile"
        file.write_text(f"FROM {base}\n{copy}\n{env}\n")
        run(tool("hadolint"), "--ignore", "DL3022", file)  # it knows no images
        assert path == "/lib/libhakozuna.so.0"
        assert env.endswith("=/usr/local/lib/libhakozuna.so.0") and copy.endswith(" /usr/local/lib/")


def test_compose(tmp_path):
    check = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    run(*check, EXAMPLES / "compose.yaml")
    assert "depends" in refused(*check, changed(EXAMPLES / "compose.yaml", tmp_path, "depends_on:", "depends:"))


def test_kubernetes(tmp_path):
    check = [tool("kubernetes-validate"), "--strict"]
    run(*check, EXAMPLES / "deployment.yaml")
    assert "'mountPath' is a required property" in refused(*check, changed(EXAMPLES / "deployment.yaml", tmp_path, "mountPath", "mountPaht"))


def verify_unit(folder: pathlib.Path, drop_in: str) -> str:
    """What systemd-analyze says about a service with the drop-in."""
    (folder / "app.service").write_text("[Service]\nExecStart=/bin/true\n")
    shutil.copytree(EXAMPLES / "app.service.d", folder / "app.service.d", dirs_exist_ok=True)
    (folder / "app.service.d/hakozuna.conf").write_text(drop_in)
    order = ["systemd-analyze", "verify", "--man=no", folder / "app.service"]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    return "".join(line for line in done.stderr.splitlines() if "app.service" in line or "hakozuna" in line)


def test_systemd(tmp_path):
    drop_in = (EXAMPLES / "app.service.d/hakozuna.conf").read_text()
    assert verify_unit(tmp_path, drop_in) == ""
    assert "Enviroment" in verify_unit(tmp_path, drop_in.replace("Environment", "Enviroment"))
    libraries = set(re.findall(r"LD_PRELOAD=(\S+)", drop_in))
    assert libraries == {"/usr/local/lib/libhakozuna.so.0"}


def test_yaml_is_tidy():
    files = [*EXAMPLES.glob("*.yaml"), WORKFLOW]
    run(tool("yamllint"), "--strict", "-d", "{extends: default, rules: {line-length: {max: 160}, document-start: disable, truthy: {check-keys: false}, comments: {min-spaces-from-content: 1}}}", *files)


def test_workflow(tmp_path):
    """GitHub's form, and no known way to attack it; it runs what .ci/run runs, in the system that tools/setup knows."""
    schema = [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    run(*schema, WORKFLOW)
    assert "runs_on" in refused(*schema, changed(WORKFLOW, tmp_path, "runs-on", "runs_on"))
    run(tool("zizmor"), "--offline", "--no-progress", WORKFLOW)
    assert "template-injection" in refused(
        tool("zizmor"), "--offline", "--no-progress", changed(WORKFLOW, tmp_path, "run: bash .ci/run", "run: echo ${{ github.event.pull_request.title }}")
    )
    commands = re.findall(r"run: (.*)", WORKFLOW.read_text())
    assert "bash .ci/run" in commands
    job = (ROOT / ".ci/run").read_text().splitlines()
    assert [line.split(" || ")[0] for line in job if line.startswith("make ")] == ["make test", "make test-deep"]
    targets = re.findall(r"make ([a-z-]+)", "\n".join(commands).replace(" make &&", "").replace("git make", ""))
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["test-packages", "site"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_conan(tmp_path):
    """The recipe makes both libraries, and its own test program finds malloc to be ours."""
    home = {"CONAN_HOME": str(tmp_path / "home")}
    shutil.copytree(ROOT / "packaging/conan/test_package", tmp_path / "test_package")
    run(tool("conan"), "profile", "detect", **home)
    for shared in ("False", "True"):
        order = [tool("conan"), "create", ROOT / "packaging/conan", "-o", f"hakozuna/*:shared={shared}", "-s", "compiler.cppstd=17", "--test-folder", tmp_path / "test_package"]
        done = subprocess.run([str(word) for word in order], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **home}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "engine=hz3 lane=scale overrides=none version=" in done.stdout + done.stderr


def test_vcpkg_port_names_what_is_there():
    """vcpkg itself is in no registry that this test reaches; what the port passes to CMake is what CMake knows."""
    text = (ROOT / "packaging/vcpkg/portfile.cmake").read_text()
    known = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "cmake/build.cmake").read_text()
    options = re.findall(r"-D(HAKOZUNA_\w+)=", text)
    assert len(options) == 4 and all(option in known for option in options)
    run("cmake", "-P", ROOT / "tests/packages/programs/vcpkg_port.cmake", PORT=str(ROOT / "packaging/vcpkg/portfile.cmake"))
