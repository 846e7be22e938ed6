"""The Conan package: `conan create packaging/conan`, with `-o hakozuna/*:shared=True` for the shared library."""

import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

SOURCES = ("CMakeLists.txt", "LICENSE", "cmake/*", "command/*.in", "command/*.py", "command/completion/*", "include/*", "packaging/man/*", "src/*")


class Hakozuna(ConanFile):
    name = "hakozuna"
    description = "Memory allocator for programs with many threads"
    license = "MIT"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    @property
    def _root(self) -> pathlib.Path:
        return pathlib.Path(self.recipe_folder).resolve().parents[1]

    def set_version(self):
        header = (self._root / "include/hakozuna/hakozuna.h").read_text(encoding="utf-8")
        self.version = ".".join(re.findall(r"#define HZ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, str(self._root), self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"os is '{self.settings.os}'; allowed: Linux")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HAKOZUNA_BUILD_TESTS"] = "OFF"
        toolchain.cache_variables["HAKOZUNA_BUILD_BENCHMARKS"] = "OFF"
        toolchain.cache_variables["HAKOZUNA_WERROR"] = "OFF"
        toolchain.cache_variables["HAKOZUNA_LANES"] = "hz3/scale"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="libs")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, str(pathlib.Path(self.package_folder) / "licenses"))
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):  # Conan makes its own
            rmdir(self, str(pathlib.Path(self.package_folder) / folder))
        unwanted = "*.a" if self.options.shared else "*.so*"
        for path in (pathlib.Path(self.package_folder) / "lib").glob(unwanted):
            path.unlink()

    def package_info(self):
        self.cpp_info.set_property("cmake_target_name", "hakozuna::hakozuna")
        self.cpp_info.libs = ["hakozuna"]
        self.cpp_info.system_libs = ["pthread"]
        # without them a program that calls only malloc would not get it from here (docs/install.md)
        flags = ["-Wl,--no-as-needed"] if self.options.shared else ["-Wl,-u,malloc"]
        self.cpp_info.exelinkflags = flags
        self.cpp_info.sharedlinkflags = flags
