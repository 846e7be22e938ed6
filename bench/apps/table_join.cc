/*
 * table_join - joins two tables by a hash table, as a database or an analysis of a graph does: a std::unordered_map
 * with ROWS entries from keys to amounts is filled in random order and probed with half as many keys, of which half are
 * in it; a tenth of the entries is erased in between. Each entry is a block of its own. Prints counts and a sum that
 * follow from ROWS.
 */
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

namespace {

constexpr std::uint64_t rows_max = 200'000'000;

/* A bijection of 64 bits, so that different numbers make different keys (the finaliser of splitmix64). */
std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

struct found {
    std::uint64_t hits = 0, sum = 0;
};

found probe(const std::unordered_map<std::uint64_t, std::uint64_t> &table, std::uint64_t from, std::uint64_t count,
            std::uint64_t rows) {
    found result;
    for (std::uint64_t n = from; n < from + count; n++) {
        auto entry = table.find(mixed(mixed(n) % (2 * rows)));
        if (entry != table.end()) {
            result.hits++;
            result.sum += entry->second;
        }
    }
    return result;
}

} // namespace

int main(int argc, char **argv) {
    char *end = nullptr;
    errno = 0;
    std::uint64_t rows = argc == 2 ? std::strtoull(argv[1], &end, 10) : 0;
    if (argc != 2 || *end != '\0' || errno != 0 || rows == 0 || rows > rows_max) {
        std::fprintf(stderr, "table_join: allowed: one number, 1 to %" PRIu64 "\n", rows_max);
        return 2;
    }
    std::unordered_map<std::uint64_t, std::uint64_t> table;
    table.reserve(rows);
    for (std::uint64_t n = 0; n < rows; n++)
        table.emplace(mixed(n), n);
    found before = probe(table, 0, rows / 4, rows);
    for (std::uint64_t n = 0; n < rows; n += 10)
        table.erase(mixed(n));
    found after = probe(table, rows / 4, rows / 4, rows);
    std::printf("entries=%zu hits=%" PRIu64 ",%" PRIu64 " sum=%" PRIu64 "\n", table.size(), before.hits, after.hits,
                before.sum + after.sum);
    bool is_right = table.size() == rows - (rows + 9) / 10 && before.hits > after.hits;
    return is_right || rows < 1000 ? 0 : 1;
}
