#!/usr/bin/python3
"""Writes the input of an application to stdout; the same arguments give the same bytes on every machine.

usage: bench/apps/generate.py source.cc COUNT    C++ with COUNT families of classes, templates and containers
       bench/apps/generate.py load.sql COUNT     SQL that stores, indexes, changes, joins, sorts and deletes COUNT rows
       bench/apps/generate.py text.txt BYTES     words and numbers that compress about as well as prose
       bench/apps/generate.py records.json COUNT one array of COUNT records with nested lists and strings
"""

import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator

CPP_HEAD = """\
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
"""

CPP_FAMILY = """
namespace family_{n} {{
template <typename Key, typename Value, int Shift> struct Table {{
    std::unordered_map<Key, std::vector<Value>> rows;
    std::map<Value, std::set<Key>> index;
    void add(const Key &key, const Value &value) {{
        rows[key].push_back(value);
        index[value].insert(key);
    }}
    std::uint64_t total() const {{
        return std::accumulate(rows.begin(), rows.end(), std::uint64_t{{{a}}}, [](std::uint64_t sum, const auto &row) {{
            return (sum << Shift) ^ (sum >> (64 - Shift)) ^ row.second.size();
        }});
    }}
}};
struct Shape {{
    virtual ~Shape() = default;
    virtual double area(double scale) const = 0;
}};
{shapes}
std::vector<std::unique_ptr<Shape>> make_shapes() {{
    std::vector<std::unique_ptr<Shape>> shapes;
{makes}
    return shapes;
}}
std::uint64_t run(const std::vector<std::string> &words) {{
    Table<std::string, std::uint32_t, {shift}> counts;
    Table<std::uint64_t, std::pair<int, int>, {other_shift}> pairs;
    for (std::size_t i = 0; i < words.size(); i++) {{
        counts.add(words[i], static_cast<std::uint32_t>(words[i].size() * {b}u + i));
        pairs.add(i % {c}u, {{static_cast<int>(i), static_cast<int>(words[i].size())}});
    }}
    auto shapes = make_shapes();
    std::sort(shapes.begin(), shapes.end(), [](const auto &x, const auto &y) {{ return x->area({a}) < y->area({b}); }});
    return counts.total() + pairs.total() + static_cast<std::uint64_t>(shapes.front()->area({c}));
}}
}} // namespace family_{n}
"""

CPP_SHAPE = """\
struct Shape_{s} final : Shape {{
    double width = {w}.5, height = {h}.25;
    double area(double scale) const override {{
        double sum = 0;
        for (int step = 0; step < {w}; step++) {{
            sum += width * height * scale / (step + {h});
        }}
        return sum;
    }}
}};"""


def cpp(count: int) -> Iterator[str]:
    """Families with different constants, so that the compiler cannot reuse work from one for the next."""
    draw = random.Random(1)
    yield CPP_HEAD
    for number in range(count):
        shapes = [CPP_SHAPE.format(s=s, w=draw.randint(2, 90), h=draw.randint(2, 90)) for s in range(4)]
        makes = [f"    shapes.push_back(std::make_unique<Shape_{s}>());" for s in range(4)]
        yield CPP_FAMILY.format(
            n=number, a=draw.randint(1, 10**6), b=draw.randint(1, 999), c=draw.randint(2, 999),
            shift=draw.randint(1, 31), other_shift=draw.randint(32, 63), shapes="\n".join(shapes), makes="\n".join(makes),
        )  # fmt: skip


def phrase(draw: random.Random, low: int, high: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))


def sql(count: int) -> Iterator[str]:
    """A table of `count` rows and a smaller one; each query prints a few rows, which are the result."""
    draw = random.Random(2)
    yield "PRAGMA cache_size=-16000;\n"
    yield "CREATE TABLE item(id INTEGER PRIMARY KEY, owner INTEGER, price REAL, title TEXT, body TEXT);\n"
    yield "CREATE TABLE owner(id INTEGER PRIMARY KEY, name TEXT);\nBEGIN;\n"
    owners = max(1, count // 20)
    for number in range(owners):
        yield f"INSERT INTO owner VALUES({number},'{phrase(draw, 2, 3)} {number}');\n"
    for number in range(count):
        title, body = phrase(draw, 2, 6), phrase(draw, 5, 40)
        yield f"INSERT INTO item VALUES({number},{draw.randrange(owners)},{draw.randint(1, 9999)}.25,'{title}','{body}');\n"
    yield "COMMIT;\nCREATE INDEX by_title ON item(title, price);\nCREATE INDEX by_owner ON item(owner);\n"
    yield "BEGIN;\n"
    for _ in range(count // 2):
        key = draw.randrange(count)
        yield f"UPDATE item SET price=price+{draw.randint(1, 99)}, body=body||' {phrase(draw, 1, 9)}' WHERE id={key};\n"
    yield "COMMIT;\n"
    for _ in range(max(1, count // 50)):
        word = draw.choice(WORDS)
        yield f"SELECT count(*), sum(price), max(body) FROM item WHERE title BETWEEN '{word}' AND '{word}z';\n"
    yield "SELECT owner.name, count(*), group_concat(title) FROM item JOIN owner ON owner.id=item.owner "
    yield "GROUP BY owner.name ORDER BY sum(price) DESC LIMIT 20;\n"
    yield "SELECT title, count(DISTINCT owner) AS n FROM item GROUP BY title ORDER BY n DESC, title LIMIT 20;\n"
    yield "SELECT id, upper(body) FROM item ORDER BY length(body), body DESC LIMIT 20;\n"
    yield "DELETE FROM item WHERE id%3=0;\nSELECT count(*), total(price), total(length(body)) FROM item;\n"
    yield "PRAGMA integrity_check;\n"


def text(size: int) -> Iterator[str]:
    """Exactly `size` bytes."""
    draw = random.Random(3)
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(WORDS))))
    left = size
    while left > 0:
        line = " ".join(draw.choices(WORDS, cum_weights=weights, k=12)) + f" {draw.randint(0, 10**9)}.\n"
        yield line[:left]
        left -= len(line)


def records(count: int) -> Iterator[str]:
    draw = random.Random(5)
    for number in range(count):
        record = {
            "id": number,
            "name": phrase(draw, 1, 3),
            "group": draw.choice(WORDS[:200]),
            "price": draw.randint(1, 10**6) / 100,
            "tags": draw.choices(WORDS, k=draw.randint(0, 8)),
            "places": [{"x": draw.random(), "y": draw.random(), "note": phrase(draw, 1, 9)} for _ in range(draw.randint(0, 4))],
        }
        yield ("[" if number == 0 else ",") + json.dumps(record) + "\n"
    yield "]\n"


def _words() -> list[str]:
    draw = random.Random(4)
    syllables = [consonant + vowel for consonant in "bdfghklmnprstvz" for vowel in "aeiou"]
    return sorted({"".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(4000)})


WORDS = _words()
KINDS: dict[str, Callable[[int], Iterator[str]]] = {
    "source.cc": cpp,
    "load.sql": sql,
    "text.txt": text,
    "records.json": records,
}


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS or not sys.argv[2].isdecimal() or sys.argv[2] == "0":
        given = " ".join(sys.argv[1:])
        print(f"generate.py: arguments are '{given}'; allowed: {'|'.join(KINDS)}, a number, 1 or more", file=sys.stderr)
        return 2
    sys.stdout.writelines(KINDS[sys.argv[1]](int(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
