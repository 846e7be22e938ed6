/*
 * Blocks that cross the border between the C library and the program: the library's functions allocate what the program
 * frees, and resize what the program allocated. They call malloc, realloc and free by name, so all these blocks are
 * ours. The standards say that the caller frees the result with free(), or with another function, which calls free.
 */
#include "api.h"
#include "support.h"

#include <argz.h>
#include <cstdarg>
#include <cwchar>
#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <obstack.h>
#include <regex.h>
#include <search.h>
#include <spawn.h>
#include <string>
#include <unistd.h>
#include <wordexp.h>

namespace {

using namespace support;

class LibcBlocks : public testing::Test {
  protected:
    void SetUp() override {
        T_ONLY_SYSTEM_NAMES();
        if (sanitized)
            GTEST_SKIP() << "sanitizers replace these functions";
    }
};

/* The block has room for `least` bytes, all of which may be written, and is one of ours. */
void check_and_free(void *block, size_t least) {
    ASSERT_NE(block, nullptr);
    size_t usable = t_usable_size(block);
    EXPECT_GE(usable, least);
    if (t_ours()) {
        EXPECT_TRUE(usable_fits(usable, usable)) << "not one of our blocks";
    }
    memset(block, 1, usable);
    free(block);
}

const std::string long_text(5000, 'x');

/* POSIX.1-2024 strdup, strndup (also C23 7.26.2.8), wcsdup. */
TEST_F(LibcBlocks, CopiesOfStrings) {
    for (size_t length : {size_t{0}, size_t{7}, size_t{300}, long_text.size()}) {
        std::string text = long_text.substr(0, length);
        check_and_free(strdup(text.c_str()), length + 1);
        check_and_free(strndup(long_text.c_str(), length), length + 1);
        check_and_free(wcsdup(std::wstring(length, L'w').c_str()), (length + 1) * sizeof(wchar_t));
    }
}

int print_into(char **out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

/* POSIX.1-2024 asprintf, vasprintf. */
TEST_F(LibcBlocks, PrintedStrings) {
    for (int width : {1, 100, 5000, 300000}) {
        char *text = nullptr;
        ASSERT_EQ(asprintf(&text, "%0*d", width, 7), width);
        check_and_free(text, static_cast<size_t>(width) + 1);
        ASSERT_EQ(print_into(&text, "%*s", width, "y"), width);
        check_and_free(text, static_cast<size_t>(width) + 1);
    }
}

/* POSIX.1-2024 getline, getdelim: the buffer may be NULL or from malloc, and is resized as by realloc. */
TEST_F(LibcBlocks, LinesGrowTheCallersBuffer) {
    std::string lines = "short\n" + long_text + "\n" + std::string(200000, 'z') + ";end";
    FILE *in = fmemopen(lines.data(), lines.size(), "r");
    ASSERT_NE(in, nullptr);
    size_t capacity = 4;
    char *line = static_cast<char *>(t_malloc(capacity));
    ASSERT_EQ(getline(&line, &capacity, in), 6);
    ASSERT_EQ(getline(&line, &capacity, in), static_cast<ssize_t>(long_text.size() + 1));
    EXPECT_EQ(line, long_text + "\n");
    EXPECT_GE(t_usable_size(line), capacity);
    ASSERT_EQ(getdelim(&line, &capacity, ';', in), 200001);
    check_and_free(line, capacity);
    line = nullptr;
    ASSERT_EQ(getline(&line, &capacity, in), 3) << "the capacity beside NULL has no meaning";
    check_and_free(line, capacity);
    fclose(in);
}

/* POSIX.1-2024 open_memstream, open_wmemstream: the buffer is the caller's to free after fclose. */
TEST_F(LibcBlocks, MemoryStreams) {
    char *text = nullptr;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ASSERT_NE(out, nullptr);
    for (int i = 0; i < 20000; i++)
        ASSERT_GT(fprintf(out, "%d ", i), 0);
    fclose(out);
    EXPECT_EQ(size, strlen(text));
    check_and_free(text, size + 1);
    wchar_t *wide = nullptr;
    out = open_wmemstream(&wide, &size);
    ASSERT_NE(out, nullptr);
    for (int i = 0; i < 5000; i++)
        ASSERT_GT(fwprintf(out, L"%d ", i), 0);
    fclose(out);
    EXPECT_EQ(size, wcslen(wide));
    check_and_free(wide, (size + 1) * sizeof(wchar_t));
}

/* POSIX.1-2024 realpath with NULL; glibc: getcwd(NULL, 0), get_current_dir_name, canonicalize_file_name, tempnam. */
TEST_F(LibcBlocks, Paths) {
    for (char *path : {getcwd(nullptr, 0), getcwd(nullptr, PATH_MAX), get_current_dir_name(), realpath(".", nullptr),
                       realpath("/proc/self/../self/status", nullptr), canonicalize_file_name("/usr/./bin")}) {
        ASSERT_NE(path, nullptr);
        check_and_free(path, strlen(path) + 1);
    }
}

/* POSIX.1-2024 scandir: each entry and the list; scanf's %ms and %m[: the caller frees. */
TEST_F(LibcBlocks, ListsAndScannedStrings) {
    struct dirent **entries = nullptr;
    int count = scandir("/", &entries, nullptr, alphasort);
    ASSERT_GT(count, 2);
    for (int i = 0; i < count; i++)
        check_and_free(entries[i], offsetof(struct dirent, d_name) + 2);
    check_and_free(entries, static_cast<size_t>(count) * sizeof *entries);
    char *word = nullptr;
    char *digits = nullptr;
    const char *format = t_opaque("%ms %m[0-9]"); /* C++ compilers do not know the flag, which is POSIX's */
    ASSERT_EQ(sscanf((long_text + " 12345").c_str(), format, &word, &digits), 2);
    EXPECT_EQ(word, long_text);
    check_and_free(word, long_text.size() + 1);
    check_and_free(digits, 6);
    void *frames[20];
    int depth = backtrace(frames, 20);
    check_and_free(backtrace_symbols(frames, depth), static_cast<size_t>(depth) * sizeof(char *));
}

/* glibc's argz functions resize a vector of the caller's. */
TEST_F(LibcBlocks, ArgumentVectors) {
    char *vector = nullptr;
    size_t length = 0;
    for (int i = 0; i < 2000; i++)
        ASSERT_EQ(argz_add(&vector, &length, "some words"), 0);
    EXPECT_EQ(argz_count(vector, length), 2000U);
    check_and_free(vector, length);
}

int compare(const void *a, const void *b) {
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

void *chunk_of_obstack(size_t size) {
    return t_malloc(size);
}
#define obstack_chunk_alloc chunk_of_obstack
#define obstack_chunk_free  free

void use_obstack() {
    struct obstack stack;
    obstack_init(&stack);
    for (size_t i = 1; i <= 1000; i++)
        obstack_copy0(&stack, long_text.data(), static_cast<int>(long_text.size() % i));
    obstack_free(&stack, nullptr);
}

void use_tree_and_table() {
    void *root = nullptr;
    int keys[300];
    for (int i = 0; i < 300; i++) {
        keys[i] = i;
        EXPECT_NE(tsearch(&keys[i], &root, compare), nullptr);
    }
    tdestroy(root, [](void *) {});
    struct hsearch_data table = {};
    EXPECT_NE(hcreate_r(1000, &table), 0);
    hdestroy_r(&table);
}

void use_patterns() {
    glob_t found;
    EXPECT_EQ(glob("/proc/self/*", 0, nullptr, &found), 0);
    globfree(&found);
    wordexp_t words;
    EXPECT_EQ(wordexp("a b \"c d\" ~", &words, WRDE_NOCMD), 0);
    wordfree(&words);
    regex_t pattern;
    EXPECT_EQ(regcomp(&pattern, "(a|b)*c{2,30}[[:alpha:]]+", REG_EXTENDED), 0);
    EXPECT_EQ(regexec(&pattern, "ababccx", 0, nullptr, 0), 0);
    regfree(&pattern);
}

void use_addresses_and_locales() {
    struct addrinfo hints = {};
    hints.ai_flags = AI_NUMERICHOST;
    struct addrinfo *addresses = nullptr;
    EXPECT_EQ(getaddrinfo("127.0.0.1", "80", &hints, &addresses), 0);
    freeaddrinfo(addresses);
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
    locale_t copy = duplocale(locale);
    freelocale(copy);
    freelocale(locale);
    iconv_t converter = iconv_open("UTF-16", "UTF-8");
    iconv_close(converter);
}

void use_files() {
    FILE *file = fopen("/proc/self/status", "r");
    char word[100];
    EXPECT_EQ(fscanf(file, "%99s", word), 1);
    fclose(file);
    DIR *directory = opendir("/");
    while (readdir(directory) != nullptr) {
    }
    closedir(directory);
    (void)nftw(
        "/proc/self/fd", [](const char *, const struct stat *, int, struct FTW *) { return 0; }, 10, FTW_PHYS);
    posix_spawn_file_actions_t actions;
    EXPECT_EQ(posix_spawn_file_actions_init(&actions), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(posix_spawn_file_actions_addopen(&actions, 100 + i, "/dev/null", O_RDONLY, 0), 0);
    posix_spawn_file_actions_destroy(&actions);
}

void sort_much() {
    std::vector<int> numbers(200000);
    for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<int>(mix(i) & 0xffff);
    qsort(numbers.data(), numbers.size(), sizeof numbers[0], compare); /* merges in a block of its own */
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

/* These have functions of their own that free what they allocate. After the first call, which may fill caches of the
   C library, nothing may stay. */
TEST_F(LibcBlocks, WhatTheLibraryFreesItselfIsNotLost) {
    for (void (*use)() :
         {use_obstack, use_tree_and_table, use_patterns, use_addresses_and_locales, use_files, sort_much}) {
        for (int i = 0; i < 3; i++)
            use();
        size_t before = live_bytes();
        for (int i = 0; i < 20; i++)
            use();
        EXPECT_EQ(live_bytes(), before);
    }
}

} // namespace
