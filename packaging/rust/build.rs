//! Builds the C library as one translation unit, as the repository's own build does for its archives.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A lane: the feature that chooses it, its engine, its header, and the folders of src/ways that it is built from.
/// The repository's build finds the folders from the knobs; a test there compares this table with it.
struct Lane {
    feature: &'static str,
    engine: &'static str,
    header: &'static str,
    home: &'static [&'static str],
    bins: &'static str,
}

const SCALE: Lane = Lane { feature: "", engine: "hz3", header: "scale", home: &["direct"], bins: "perthread" };
const LANES: [Lane; 6] = [
    Lane { feature: "hz3-fast", engine: "hz3", header: "fast", home: &["direct"], bins: "perthread" },
    Lane { feature: "hz3-p32", engine: "hz3", header: "p32", home: &["direct"], bins: "perthread" },
    Lane { feature: "hz3-percpu", engine: "hz3", header: "percpu", home: &["direct"], bins: "percpu" },
    Lane { feature: "hz3-home", engine: "hz3", header: "home", home: &["lists", "stages"], bins: "perthread" },
    Lane { feature: "hz4", engine: "hz4", header: "default", home: &["direct"], bins: "perthread" },
    Lane { feature: "hz4-home", engine: "hz4", header: "home", home: &["lists", "inbox"], bins: "perthread" },
];
const TAKERS: &str = "shared";

/// The compiler must not know what malloc does: it would turn malloc and memset into calloc inside calloc itself.
const MALLOC_NAMES: [&str; 10] = [
    "malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "posix_memalign", "memalign", "valloc", "pvalloc",
];

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"))).is_some()
}

fn target(what: &str) -> String {
    env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default()
}

fn chosen_lane() -> &'static Lane {
    let chosen: Vec<_> = LANES.iter().filter(|lane| has_feature(lane.feature)).collect();
    if chosen.len() > 1 {
        let names: Vec<_> = chosen.iter().map(|lane| lane.feature).collect();
        panic!("features {} are given; allowed: one lane at most", names.join(", "));
    }
    chosen.first().copied().unwrap_or(&SCALE)
}

/// The sources of a folder and, if asked, of those below it, in the order of their names.
fn sources_in(folder: &Path, below: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read '{}': {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry of a folder").path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() && below {
            found.extend(sources_in(&path, true));
        } else if path.extension().map_or(false, |suffix| suffix == "c") {
            found.push(path);
        }
    }
    found
}

/// The front layer without what only a shared library has, and without the standard names unless they are wanted.
fn is_front_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "override_dlopen.c" | "override_early.c" | "override_prctl.c" | "override_syscall.c" | "override_thread.c" => false,
        "override_introspect.c" => has_feature("override") && target("ENV") == "gnu", // glibc's own functions
        name => has_feature("override") || !name.starts_with("override"),
    }
}

fn sources(src: &Path, lane: &Lane) -> Vec<PathBuf> {
    let mut found = sources_in(&src.join("base"), true);
    found.retain(|path| !path.ends_with("os_faulty.c"));
    found.extend(sources_in(&src.join("heap"), true));
    for way in lane.home {
        found.extend(sources_in(&src.join("ways").join(way), false));
    }
    found.extend(sources_in(&src.join("ways").join(TAKERS), false));
    found.extend(sources_in(&src.join("ways").join(lane.bins), false));
    found.extend(sources_in(&src.join("front"), true).into_iter().filter(|path| is_front_source(path)));
    found
}

fn main() {
    if target("OS") != "linux" {
        panic!("target is '{}'; allowed: linux", target("OS"));
    }
    let lane = chosen_lane();
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("c");
    let src = root.join("src");
    let unit = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("hakozuna.c");
    let lines: Vec<_> = sources(&src, lane).iter().map(|path| format!("#include \"{}\"\n", path.display())).collect();
    fs::write(&unit, lines.concat()).expect("OUT_DIR can be written");

    let mut build = cc::Build::new();
    build
        .file(&unit)
        .std("c11")
        .opt_level(2) // whatever the profile: without it each malloc takes ten times as long
        .warnings(false)
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag_if_supported("-fno-semantic-interposition")
        .flag("-fexceptions")
        .define("_GNU_SOURCE", "")
        .define("HZ_CHECKS", if has_feature("checks") { "1" } else { "0" })
        .define("HZ_STATS", if has_feature("stats") { "1" } else { "0" })
        .define("HZ_FENCES", "0")
        .define("HZ_BUILD_NAME", if has_feature("checks") { "\"check\"" } else { "\"release\"" })
        .define("HZ_LANE_HEADER", &*format!("\"lanes/{}.h\"", lane.header))
        .includes([root.join("include"), src.clone(), src.join("engines").join(lane.engine)])
        .includes(lane.home.iter().chain([&TAKERS, &lane.bins]).map(|way| src.join("ways").join(way)));
    for name in MALLOC_NAMES {
        build.flag(format!("-fno-builtin-{name}"));
    }
    if !has_feature("override") {
        build.define("HZ_ONLY_OUR_NAMES", "1");
    }
    build.compile("hakozuna");
    if target("ARCH") == "riscv64" {
        println!("cargo:rustc-link-lib=atomic"); // gcc has no atomic operations on 1 and 2 bytes of its own there
    }
    println!("cargo:rerun-if-changed={}", root.display());
}
