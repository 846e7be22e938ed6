/* A table whose system pages become writable when they are first needed, and keep their entries afterwards. */
#include "stress/children.h"
#include "unit/base/faulty.h"

#include <gtest/gtest.h>

namespace {

using children::require;

constexpr size_t table_pages = 200; /* more than one word of bits */

struct Table {
    Table() {
        size_t page = hz_os_page_bytes();
        auto *start = static_cast<char *>(hz_os_map_zero(table_pages * page, page));
        require(start != nullptr, "the table can be mapped");
        table = {start, opened};
    }
    bool open(size_t first, size_t last) {
        size_t page = hz_os_page_bytes();
        return hz_table_open_locked(&table, table.start + first * page + 1, table.start + last * page + page - 1);
    }
    char &at(size_t page) {
        return table.start[page * hz_os_page_bytes()];
    }
    struct hz_table table = {};
    uint64_t opened[HZ_TABLE_WORDS(table_pages * 65536)] = {};
};

TEST(Table, EachPageIsOpenedOnce) {
    Table table;
    hz_os_faulty_fail(UINT64_MAX, 0);
    ASSERT_TRUE(table.open(3, 3));
    EXPECT_EQ(hz_os_faulty_calls(), 1U);
    table.at(3) = 7;
    ASSERT_TRUE(table.open(0, table_pages - 1));
    EXPECT_EQ(hz_os_faulty_calls(), table_pages);
    EXPECT_EQ(table.at(3), 7);
    for (size_t page = 0; page < table_pages; page++)
        table.at(page) = 1;
    ASSERT_TRUE(table.open(0, table_pages - 1));
    EXPECT_EQ(hz_os_faulty_calls(), table_pages) << "nothing was left to open";
}

TEST(Table, WhatTheOsRefusedIsTriedAgain) {
    Table table;
    hz_os_faulty_fail(2, 1);
    EXPECT_FALSE(table.open(10, 14));
    table.at(10) = table.at(11) = 7;
    ASSERT_TRUE(table.open(10, 14));
    EXPECT_EQ(hz_os_faulty_calls(), 6U) << "two, the refused one, and the last three";
    EXPECT_EQ(table.at(10), 7);
    table.at(14) = 7;
}

} // namespace
