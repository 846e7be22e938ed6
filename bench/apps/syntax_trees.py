#!/usr/bin/python3
"""Python's own library, parsed to syntax trees, compiled, and written back.

usage: PYTHONMALLOC=malloc bench/apps/syntax_trees.py COUNT   the first COUNT modules by name; prints a digest
"""

import ast
import hashlib
import pathlib
import sys

if len(sys.argv) != 2 or not sys.argv[1].isdecimal() or sys.argv[1] == "0":
    print(f"syntax_trees.py: arguments are '{' '.join(sys.argv[1:])}'; allowed: one number, 1 or more", file=sys.stderr)
    sys.exit(2)
digest = hashlib.sha256()
kept = []
for path in sorted(pathlib.Path(ast.__file__).parent.glob("*.py"))[: int(sys.argv[1])]:
    tree = ast.parse(path.read_text())
    kept.append(compile(tree, path.name, "exec"))
    digest.update(ast.unparse(tree).encode())
print(len(kept), digest.hexdigest())
