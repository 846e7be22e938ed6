#!/usr/bin/python3
"""PostgreSQL sorts, joins and groups a table in memory: one backend (postgres --single) with a large work_mem.

The argument is the number of rows. Only that backend gets the preload of this process; it fills the table first. The time of
the queries goes to figures.txt, their results to stdout. Run as root, PostgreSQL gets the rights of user nobody, as it
refuses those of root.
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

from common import amount

SETTINGS = {
    "work_mem": "2GB", "shared_buffers": "64MB", "fsync": "off", "jit": "off", "max_parallel_workers_per_gather": "0",
    "enable_mergejoin": "off", "enable_nestloop": "off",
}  # fmt: skip
LOADED = "select 'preload ' || (position('{library}' in pg_read_file('/proc/self/maps')) > 0)"
CLOCK = "select 'clock ' || extract(epoch from clock_timestamp())"
TABLE = """create unlogged table item as select n as id, abs(hashint4(n)) % 50000 as owner,
 md5(n::text) as title, (n % 9973)::numeric / 4 as price from generate_series(1, {count}) as n"""
# one line each, as a backend without a client reads them
QUERIES = (
    "select 'sorted ' || title from item order by title offset {count} - 1",
    "select 'sorted ' || id from item order by price desc, title offset {count} - 1",
    "select 'joined ' || count(*) || ' ' || sum(a.id - b.owner) from item a join item b on a.title = md5(b.id::text)",
    "select 'grouped ' || count(*) || ' ' || max(most) from (select max(id) as most from item group by title) as t",
)


def find(name: str) -> str:
    """Debian has PostgreSQL's programs in a folder for each version, not on PATH."""
    found = shutil.which(name) or next(map(str, sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), "")
    if not found:
        sys.exit(f"postgres_queries.py: no {name}; 'apt-get install postgresql'")
    return found


def rights(folder: str) -> dict[str, object]:
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def run(argv: list[str], text: str, environment: dict[str, str], folder: str, user: dict[str, object]) -> str:
    ended = subprocess.run(
        argv, input=text, env=environment, cwd=folder, capture_output=True, text=True, check=False, **user
    )
    if ended.returncode != 0 or "ERROR:" in ended.stderr or "FATAL:" in ended.stderr:
        sys.exit(f"postgres_queries.py: {pathlib.Path(argv[0]).name}: {ended.stderr.strip() or ended.returncode}")
    return ended.stdout


def values(output: str) -> list[str]:
    """The results of the queries: a backend without a client prints lines such as ` 1: ?column? = "clock 17" (typeid ...)`."""
    return [line.split('"')[1] for line in output.splitlines() if '= "' in line]


def main() -> None:
    count = amount()
    with tempfile.TemporaryDirectory(prefix="hakobench-postgres-") as folder:
        user = rights(folder)
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        data = f"{folder}/data"
        run([find("initdb"), "-D", data, "-A", "trust", "-N", "--locale=C", "-E", "UTF8"], "", plain, folder, user)
        library = os.path.realpath(os.environ.get("LD_PRELOAD", "postgres")).rpartition("/")[2]
        lines = [TABLE, LOADED, CLOCK, *QUERIES, CLOCK]
        text = "".join(line.format(count=count, library=library).replace("\n", "") + "\n" for line in lines)
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        argv = [find("postgres"), "--single", "-D", data, *settings, "postgres"]
        output = values(run(argv, text, dict(os.environ), folder, user))
    if "preload true" not in output:
        sys.exit("postgres_queries.py: the preload has no effect in PostgreSQL; may its user read the library?")
    clocks = [float(line.removeprefix("clock ")) for line in output if line.startswith("clock ")]
    results = [line for line in output if not line.startswith(("clock ", "preload "))]
    if len(clocks) != 2 or len(results) != len(QUERIES):
        sys.exit(f"postgres_queries.py: unexpected results: {output}")
    pathlib.Path("figures.txt").write_text(f"seconds={clocks[1] - clocks[0]:.6f}\n", encoding="ascii")
    print("\n".join(results))


if __name__ == "__main__":
    main()
