/*
 * The C++ operators in all their forms. They are tested under their own names, so these tests reach our operators
 * only under LD_PRELOAD (or when linked with the full library); otherwise they test those of the C++ runtime.
 */
#include "api.h"
#include "support.h"

#include <cerrno>
#include <cstdint>
#include <gtest/gtest.h>
#include <new>
#include <set>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

/* clang declares these only with -fsized-deallocation, but programs call them anyway. */
void operator delete(void *block, std::size_t size) noexcept;
void operator delete[](void *block, std::size_t size) noexcept;
void operator delete(void *block, std::size_t size, std::align_val_t alignment) noexcept;
void operator delete[](void *block, std::size_t size, std::align_val_t alignment) noexcept;

namespace {

using namespace support;

/* An impossible size, hidden from the compiler, which would warn. */
volatile size_t too_much = static_cast<size_t>(PTRDIFF_MAX) - 64;

class Operators : public testing::Test {
  protected:
    void SetUp() override {
        T_ONLY_SYSTEM_NAMES();
        if (sanitized)
            GTEST_SKIP() << "sanitizers bring their own operators";
    }
    void TearDown() override {
        std::set_new_handler(nullptr);
    }

    static void expect_block(void *block, size_t size, size_t alignment) {
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(aligned_to(block, alignment)) << size << " at " << alignment;
        EXPECT_GE(t_usable_size(block), size);
        fill(block, size, size);
        EXPECT_TRUE(holds(block, size, size));
        if (t_ours() && alignment <= 16) {
            EXPECT_TRUE(usable_fits(t_usable_size(block), size)) << "not one of our blocks";
        }
    }
};

TEST_F(Operators, PlainNewAndDelete) {
    for (size_t size : edge_sizes(1 * MiB + 1)) {
        void *one = ::operator new(size);
        expect_block(one, size, 16);
        void *many = ::operator new[](size);
        expect_block(many, size, 16);
        EXPECT_NE(one, many);
        ::operator delete(one);
        ::operator delete[](many);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
}

TEST_F(Operators, SizedDelete) {
    for (size_t size : edge_sizes(1 * MiB + 1)) {
        void *one = ::operator new(size);
        void *many = ::operator new[](size);
        expect_block(one, size, 16);
        expect_block(many, size, 16);
        ::operator delete(one, size);
        ::operator delete[](many, size);
    }
    ::operator delete (nullptr, size_t{16});
    ::operator delete[](nullptr, size_t{16});
}

TEST_F(Operators, NothrowNewAndDelete) {
    for (size_t size : sample_sizes()) {
        void *one = ::operator new(size, std::nothrow);
        void *many = ::operator new[](size, std::nothrow);
        expect_block(one, size, 16);
        expect_block(many, size, 16);
        ::operator delete(one, std::nothrow);
        ::operator delete[](many, std::nothrow);
    }
}

TEST_F(Operators, AlignedNewAndDelete) {
    for (size_t power = 1; power <= 4 * MiB; power *= 2) {
        auto alignment = static_cast<std::align_val_t>(power);
        for (size_t size : {size_t{0}, size_t{1}, size_t{48}, size_t{5000}, 100 * KiB}) {
            void *blocks[8] = {::operator new(size, alignment),
                               ::operator new[](size, alignment),
                               ::operator new(size, alignment, std::nothrow),
                               ::operator new[](size, alignment, std::nothrow),
                               ::operator new(size, alignment),
                               ::operator new[](size, alignment),
                               ::operator new(size, alignment),
                               ::operator new[](size, alignment)};
            for (void *block : blocks) {
                ASSERT_NE(block, nullptr);
                EXPECT_TRUE(aligned_to(block, power)) << size << " at " << power;
                EXPECT_GE(t_usable_size(block), size);
                fill(block, size, power);
            }
            for (void *block : blocks)
                EXPECT_TRUE(holds(block, size, power));
            ::operator delete(blocks[0], alignment);
            ::operator delete[](blocks[1], alignment);
            ::operator delete(blocks[2], alignment, std::nothrow);
            ::operator delete[](blocks[3], alignment, std::nothrow);
            ::operator delete(blocks[4], size, alignment);
            ::operator delete[](blocks[5], size, alignment);
            ::operator delete(blocks[6], alignment);
            ::operator delete[](blocks[7], alignment);
        }
    }
}

/* [basic.stc.dynamic.allocation]p2: size 0 too gives a non-null pointer, different from every pointer in use. */
TEST_F(Operators, SizeZeroGivesABlockOfItsOwn) {
    std::set<void *> seen;
    for (int i = 0; i < 100; i++)
        for (void *block :
             {::operator new(0), ::operator new[](0), ::operator new(0, std::nothrow),
              ::operator new[](0, std::nothrow), ::operator new (0, std::align_val_t{64}),
              ::operator new[](0, std::align_val_t{64}), ::operator new (0, std::align_val_t{64}, std::nothrow),
              ::operator new[](0, std::align_val_t{64}, std::nothrow)}) {
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(seen.insert(block).second) << "a live block was handed out again";
        }
    for (void *block : seen)
        ::operator delete(block);
}

/* [new.delete.single]p12: a null pointer has no effect; nor is errno changed, since the operators end in free. */
TEST_F(Operators, DeleteOfNullDoesNothingInEveryForm) {
    constexpr auto aligned = std::align_val_t{64};
    errno = EILSEQ;
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::nothrow);
    ::operator delete[](nullptr, std::nothrow);
    ::operator delete (nullptr, size_t{100});
    ::operator delete[](nullptr, size_t{100});
    ::operator delete(nullptr, aligned);
    ::operator delete[](nullptr, aligned);
    ::operator delete (nullptr, size_t{100}, aligned);
    ::operator delete[](nullptr, size_t{100}, aligned);
    ::operator delete(nullptr, aligned, std::nothrow);
    ::operator delete[](nullptr, aligned, std::nothrow);
    EXPECT_EQ(errno, EILSEQ);
}

/* [expr.new]p8: the compiler throws for a length whose bytes overflow, before it calls the operator. */
TEST_F(Operators, AnImpossibleLengthThrows) {
    volatile size_t count = SIZE_MAX / 4;
    EXPECT_THROW(delete[] t_opaque(new long[count]), std::bad_array_new_length);
    count = static_cast<size_t>(PTRDIFF_MAX) / sizeof(long) - 8;
    EXPECT_THROW(delete[] t_opaque(new long[count]), std::bad_alloc);
}

struct alignas(256) Wide {
    unsigned char bytes[300];
};

TEST_F(Operators, NewExpressions) {
    Wide *wide = t_opaque(new Wide);
    EXPECT_TRUE(aligned_to(wide, 256));
    delete wide;
    Wide *array = t_opaque(new Wide[5]);
    EXPECT_TRUE(aligned_to(array, 256));
    delete[] array;
    auto *text = t_opaque(new std::string(100000, 'x'));
    EXPECT_EQ(text->size(), 100000U);
    delete text;
}

TEST_F(Operators, ThrowBadAlloc) {
    EXPECT_THROW((void)::operator new(too_much), std::bad_alloc);
    EXPECT_THROW((void)::operator new[](too_much), std::bad_alloc);
    EXPECT_THROW((void)::operator new (too_much, std::align_val_t{64}), std::bad_alloc);
    EXPECT_THROW((void)::operator new[](too_much, std::align_val_t{64}), std::bad_alloc);
    EXPECT_THROW((void)::operator new(SIZE_MAX - too_much + too_much), std::bad_alloc);
}

TEST_F(Operators, NothrowFormsReturnNull) {
    EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
    EXPECT_EQ(::operator new[](too_much, std::nothrow), nullptr);
    EXPECT_EQ(::operator new (too_much, std::align_val_t{64}, std::nothrow), nullptr);
    EXPECT_EQ(::operator new[](too_much, std::align_val_t{64}, std::nothrow), nullptr);
}

TEST_F(Operators, BadAllocUnwindsThroughDestructors) {
    static int destroyed;
    struct Guard {
        ~Guard() {
            destroyed++;
        }
    };
    destroyed = 0;
    auto inner = [](int depth, auto &self) -> void {
        Guard guard;
        std::vector<char> some(1000);
        if (depth > 0)
            self(depth - 1, self);
        else
            t_opaque(::operator new(too_much));
    };
    EXPECT_THROW(inner(9, inner), std::bad_alloc);
    EXPECT_EQ(destroyed, 10);
    std::thread other([&] { EXPECT_THROW(inner(9, inner), std::bad_alloc); });
    other.join();
    EXPECT_EQ(destroyed, 20);
}

int handler_calls;

/* Gives up on the third call by removing itself, as the standard allows. */
void handler_that_gives_up() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

TEST_F(Operators, NewHandlerIsCalledUntilItGivesUp) {
    using Allocate = void *(*)();
    const Allocate throwing[] = {[] { return ::operator new(too_much); }, [] { return ::operator new[](too_much); },
                                 [] { return ::operator new (too_much, std::align_val_t{64}); },
                                 [] { return ::operator new[](too_much, std::align_val_t{64}); }};
    for (Allocate allocate : throwing) {
        handler_calls = 0;
        std::set_new_handler(handler_that_gives_up);
        EXPECT_THROW((void)allocate(), std::bad_alloc);
        EXPECT_EQ(handler_calls, 3);
    }
    const Allocate returning[] = {[] { return ::operator new(too_much, std::nothrow); },
                                  [] { return ::operator new[](too_much, std::nothrow); },
                                  [] { return ::operator new (too_much, std::align_val_t{64}, std::nothrow); },
                                  [] { return ::operator new[](too_much, std::align_val_t{64}, std::nothrow); }};
    for (Allocate allocate : returning) {
        handler_calls = 0;
        std::set_new_handler(handler_that_gives_up);
        EXPECT_EQ(allocate(), nullptr);
        EXPECT_EQ(handler_calls, 3);
    }
}

struct OutOfBudget : std::bad_alloc {
    const char *what() const noexcept override {
        return "out of budget";
    }
};

TEST_F(Operators, ExceptionsOfTheHandlerPropagate) {
    std::set_new_handler([] { throw OutOfBudget(); });
    EXPECT_THROW((void)::operator new(too_much), OutOfBudget);
    EXPECT_THROW((void)::operator new[](too_much, std::align_val_t{64}), OutOfBudget);
    EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
    EXPECT_EQ(::operator new[](too_much, std::align_val_t{64}, std::nothrow), nullptr);
}

char *reserve;

/* Runs in a process whose address space is full: the handler frees its reserve, after which operator new succeeds. */
int allocate_after_handler_freed() {
    constexpr size_t reserve_bytes = 128 * MiB;
    reserve = static_cast<char *>(::operator new(reserve_bytes));
    size_t size = proc_bytes("/proc/self/status", "VmSize:") + 16 * MiB;
    struct rlimit limit = {size, size};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    volatile size_t wanted = 96 * MiB;
    volatile unsigned filled = 0; /* an allocator may give up address space of its own before it fails */
    while (::operator new(wanted, std::nothrow) != nullptr)
        filled = filled + 1;
    std::set_new_handler([] {
        if (reserve == nullptr)
            std::set_new_handler(nullptr);
        ::operator delete(reserve);
        reserve = nullptr;
    });
    char *block = static_cast<char *>(::operator new(wanted));
    memset(block, 1, wanted);
    return reserve == nullptr ? 0 : 3;
}

TEST_F(Operators, HandlerThatFreesMemoryMakesNewSucceed) {
    fflush(nullptr);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
        _exit(allocate_after_handler_freed());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "2: setrlimit failed, 3: the handler was not called, signal "
                                      << (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

} // namespace
