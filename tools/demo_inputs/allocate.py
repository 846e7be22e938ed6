"""Allocates the way Python programs do: many small objects, growing strings, short-lived dictionaries.

Prints a digest of its results, which must be the same under every allocator.
"""

import hashlib
import json


def words(count):
    """A reproducible stream of words of 1 to 40 letters."""
    state = 12345
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2147483648
        yield format(state, "x") * (1 + state % 5)


def count_words(digest):
    counts = {}
    for word in words(200_000):
        counts.setdefault(word[:4], []).append(word)
    for prefix in sorted(counts):
        digest.update(f"{prefix}{len(counts[prefix])}".encode())


def rewrite_records(digest):
    records = [{"id": i, "name": word, "tags": [word[:3], word[-3:]]} for i, word in enumerate(words(40_000))]
    for _ in range(3):
        text = json.dumps(records)
        records = [dict(record, name=record["name"][::-1]) for record in json.loads(text)]
        digest.update(text.encode())


def grow_buffers(digest):
    buffers = [bytearray() for _ in range(64)]
    for i, word in enumerate(words(300_000)):
        buffer = buffers[i % len(buffers)]
        buffer += word.encode()
        if len(buffer) > 100_000:
            digest.update(buffer)
            buffers[i % len(buffers)] = bytearray()


def main():
    digest = hashlib.sha256()
    count_words(digest)
    rewrite_records(digest)
    grow_buffers(digest)
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
