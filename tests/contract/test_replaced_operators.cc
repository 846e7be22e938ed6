/*
 * A program that replaces some of the C++ operators. ISO C++17 [replacement.functions] allows this, and
 * [new.delete.single] and [new.delete.array] say which function each other operator calls then: new[] calls new, sized
 * delete calls unsized delete, delete[] calls delete, and a nothrow form calls the throwing one within a try block.
 * This program replaces the four operators that all others lead to, as most such programs do. It returns pointers
 * behind a header, so that an operator which bypassed it would free a pointer that is no block.
 */
#include "api.h"
#include "support.h"

#include <atomic>
#include <cstdint>
#include <gtest/gtest.h>
#include <new>

/* clang declares these only with -fsized-deallocation, but programs call them anyway. */
void operator delete(void *block, std::size_t size) noexcept;
void operator delete[](void *block, std::size_t size) noexcept;
void operator delete(void *block, std::size_t size, std::align_val_t alignment) noexcept;
void operator delete[](void *block, std::size_t size, std::align_val_t alignment) noexcept;

namespace {

using namespace support;

struct Header {
    uint64_t seal;
    void *base;
};
constexpr uint64_t seal_live = 0x5ea1ab1e;

/* The test framework's own blocks come here too, also from other threads. */
std::atomic<size_t> news{0};
std::atomic<size_t> deletes{0};
std::atomic<bool> fails{false};

void *give(size_t alignment, size_t size) {
    if (fails)
        throw std::bad_alloc();
    char *base = static_cast<char *>(malloc(size + alignment + sizeof(Header)));
    if (base == nullptr)
        throw std::bad_alloc();
    uintptr_t at = (reinterpret_cast<uintptr_t>(base) + sizeof(Header) + alignment - 1) & ~(alignment - 1);
    auto *block = reinterpret_cast<char *>(at);
    Header header = {seal_live, base};
    memcpy(block - sizeof header, &header, sizeof header);
    news++;
    return block;
}

void take(void *block) {
    if (block == nullptr)
        return;
    Header header;
    memcpy(&header, static_cast<char *>(block) - sizeof header, sizeof header);
    if (header.seal != seal_live)
        abort();
    memset(static_cast<char *>(block) - sizeof header, 0, sizeof header);
    free(header.base);
    deletes++;
}

} // namespace

void *operator new(size_t size) {
    return give(alignof(max_align_t), size);
}
void *operator new(size_t size, std::align_val_t alignment) {
    return give(static_cast<size_t>(alignment), size);
}
void operator delete(void *block) noexcept {
    take(block);
}
void operator delete(void *block, std::align_val_t) noexcept {
    take(block);
}

namespace {

struct Form {
    const char *name;
    void *(*allocate)(size_t size);
    void (*release)(void *block, size_t size);
};

constexpr auto wide = std::align_val_t{256};

/* Every new beside every delete that may take its blocks. */
const Form forms[] = {
    {"new, delete", [](size_t size) { return ::operator new(size); },
     [](void *block, size_t) { ::operator delete(block); }},
    {"new, sized delete", [](size_t size) { return ::operator new(size); },
     [](void *block, size_t size) { ::operator delete(block, size); }},
    {"new, nothrow delete", [](size_t size) { return ::operator new(size); },
     [](void *block, size_t) { ::operator delete(block, std::nothrow); }},
    {"nothrow new, sized delete", [](size_t size) { return ::operator new(size, std::nothrow); },
     [](void *block, size_t size) { ::operator delete(block, size); }},
    {"new[], delete[]", [](size_t size) { return ::operator new[](size); },
     [](void *block, size_t) { ::operator delete[](block); }},
    {"new[], sized delete[]", [](size_t size) { return ::operator new[](size); },
     [](void *block, size_t size) { ::operator delete[](block, size); }},
    {"new[], nothrow delete[]", [](size_t size) { return ::operator new[](size); },
     [](void *block, size_t) { ::operator delete[](block, std::nothrow); }},
    {"nothrow new[], sized delete[]", [](size_t size) { return ::operator new[](size, std::nothrow); },
     [](void *block, size_t size) { ::operator delete[](block, size); }},
    {"aligned new, delete", [](size_t size) { return ::operator new(size, wide); },
     [](void *block, size_t) { ::operator delete(block, wide); }},
    {"aligned new, sized delete", [](size_t size) { return ::operator new(size, wide); },
     [](void *block, size_t size) { ::operator delete(block, size, wide); }},
    {"aligned nothrow new, delete", [](size_t size) { return ::operator new(size, wide, std::nothrow); },
     [](void *block, size_t) { ::operator delete(block, wide, std::nothrow); }},
    {"aligned new[], delete[]", [](size_t size) { return ::operator new[](size, wide); },
     [](void *block, size_t) { ::operator delete[](block, wide); }},
    {"aligned new[], sized delete[]", [](size_t size) { return ::operator new[](size, wide); },
     [](void *block, size_t size) { ::operator delete[](block, size, wide); }},
    {"aligned nothrow new[], delete[]", [](size_t size) { return ::operator new[](size, wide, std::nothrow); },
     [](void *block, size_t) { ::operator delete[](block, wide, std::nothrow); }},
};

class ReplacedOperators : public testing::Test {
  protected:
    void SetUp() override {
        T_ONLY_SYSTEM_NAMES();
        if (sanitized)
            GTEST_SKIP() << "sanitizers bring their own operators";
    }
};

TEST_F(ReplacedOperators, EveryFormEndsInTheProgramsOwn) {
    for (const Form &form : forms)
        for (size_t size : sample_sizes()) {
            size_t news_before = news;
            void *block = t_opaque(form.allocate(size));
            ASSERT_EQ(news, news_before + 1) << form.name << " did not call the program's new";
            ASSERT_NE(block, nullptr);
            fill(block, size, size);
            ASSERT_TRUE(holds(block, size, size));
            size_t deletes_before = deletes;
            form.release(block, size);
            ASSERT_EQ(deletes, deletes_before + 1) << form.name << " did not call the program's delete";
        }
}

TEST_F(ReplacedOperators, NothrowFormsCatchWhatTheProgramsOwnThrows) {
    void *blocks[4];
    fails = true;
    blocks[0] = t_opaque(::operator new(100, std::nothrow));
    blocks[1] = t_opaque(::operator new[](100, std::nothrow));
    blocks[2] = t_opaque(::operator new(100, wide, std::nothrow));
    blocks[3] = t_opaque(::operator new[](100, wide, std::nothrow));
    fails = false;
    for (void *block : blocks)
        EXPECT_EQ(block, nullptr);
}

struct Plain {
    long values[10];
};
struct Destroyed : Plain {
    ~Destroyed() {
        values[0] = 1;
    }
};
struct alignas(128) Wide : Destroyed {};

/* The compiler chooses the form of delete: with C++14 the sized one for complete types. */
template <typename T> void expect_own() {
    size_t before = deletes;
    delete t_opaque(new T);
    EXPECT_EQ(deletes, before + 1);
    delete[] t_opaque(new T[3]);
    EXPECT_EQ(deletes, before + 2);
    delete t_opaque(new (std::nothrow) T);
    EXPECT_EQ(deletes, before + 3);
    delete[] t_opaque(new (std::nothrow) T[5]);
    EXPECT_EQ(deletes, before + 4);
}

TEST_F(ReplacedOperators, NewExpressions) {
    expect_own<char>();
    expect_own<Plain>();
    expect_own<Destroyed>();
    expect_own<Wide>();
}

} // namespace
