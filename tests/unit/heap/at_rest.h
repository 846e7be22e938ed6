/*
 * at_rest.h - the report of hz_stats_print, and in it the bytes of freed blocks by where they rest.
 */
#ifndef HZ_TESTS_UNIT_HEAP_AT_REST_H
#define HZ_TESTS_UNIT_HEAP_AT_REST_H

#include "contract/json.h"
#include "unit/heap/fixture.h"

#include <map>
#include <string>
#include <sys/mman.h>

namespace unit {

inline struct hz_stats stats() {
    struct hz_stats got = {};
    EXPECT_EQ(t_stats_get(&got), 0);
    return got;
}

inline std::map<std::string, double> report() {
    int fd = memfd_create("stats", 0);
    EXPECT_EQ(t_table.stats_print_fn(fd, HZ_STATS_JSON), 0);
    std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(fd);
    std::map<std::string, double> numbers;
    EXPECT_TRUE(JsonReader::numbers(text, numbers)) << text;
    return numbers;
}

inline double bytes_at_rest(const std::string &figure) {
    std::map<std::string, double> numbers = report();
    EXPECT_EQ(numbers.count("rest." + figure), 1U) << figure;
    return numbers["rest." + figure];
}

/* The figures of group `rest` for freed blocks outside their pages, without those that are 0. */
using AtRest = std::map<std::string, double>;

inline AtRest at_rest() {
    AtRest found;
    for (const auto &[name, value] : report())
        if (name.rfind("rest.", 0) == 0 && value != 0 && name != "rest.pages_bytes" && name != "rest.arena_bytes" &&
            name != "rest.hollow_bytes")
            found[name.substr(5)] = value;
    return found;
}

/* The figure for where the first list waits that is sent to a shard. */
inline const char *first_part() {
    switch (mail()) {
    case Mail::none:
        return nullptr;
    case Mail::inbox:
        return HZ_INBOX_FIGURE;
    case Mail::pages:
        return "page_lists_bytes";
    default:
        return HZ_INBOX_MAX_BYTES == 0 ? "transfer_bytes" : HZ_INBOX_FIGURE;
    }
}

} // namespace unit

#endif
