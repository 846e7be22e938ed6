/*
 * Corners of the standards that belong to no one function: what is common to the whole malloc family. README.md lists
 * every corner with its test.
 */
#include "api.h"
#include "support.h"

#include <array>
#include <cerrno>
#include <climits>
#include <gtest/gtest.h>
#include <pthread.h>
#include <set>
#include <threads.h>

namespace {

using namespace support;

struct Allocator {
    const char *name;
    void *(*call)(size_t size);
};

void *by_posix_memalign(size_t size) {
    void *block = nullptr;
    int error = t_posix_memalign(&block, sizeof(void *), size);
    if (error != 0)
        errno = error;
    return error == 0 ? block : nullptr;
}

/* Every way to ask for `size` bytes. */
const Allocator allocators[] = {
    {"malloc", t_malloc},
    {"calloc", [](size_t size) { return t_calloc(1, size); }},
    {"calloc of bytes", [](size_t size) { return t_calloc(size, 1); }},
    {"realloc", [](size_t size) { return t_realloc(nullptr, size); }},
    {"reallocarray", [](size_t size) { return t_reallocarray(nullptr, 1, size); }},
    {"reallocarray of bytes", [](size_t size) { return t_reallocarray(nullptr, size, 1); }},
    {"aligned_alloc", [](size_t size) { return t_aligned_alloc(16, size); }},
    {"posix_memalign", by_posix_memalign},
    {"memalign", [](size_t size) { return t_memalign(16, size); }},
    {"valloc", t_valloc},
    {"pvalloc", t_pvalloc},
};

/* C17 7.22.3p1: a successful result is suitably aligned for an object of any type with a fundamental alignment
   requirement. 16 on x86-64, also for blocks that are too small for such an object, since SSE code copies them whole.
 */
TEST(Standards, EveryFunctionAlignsForAnyType) {
    std::vector<size_t> sizes = edge_sizes(128 * KiB);
    for (const Allocator &allocator : allocators) {
        void *before = nullptr; /* a live neighbour, so that the blocks are not all at one address */
        for (size_t size : sizes) {
            void *block = allocator.call(size);
            ASSERT_NE(block, nullptr) << allocator.name << " of " << size;
            EXPECT_TRUE(aligned_to(block, alignof(max_align_t))) << allocator.name << " of " << size;
            t_free(before);
            before = block;
        }
        t_free(before);
    }
}

TEST(Standards, ReallocKeepsTheAlignmentForAnyType) {
    void *block = nullptr;
    for (size_t size : edge_sizes(128 * KiB)) {
        if (size == 0)
            continue; /* frees */
        block = t_realloc(block, size);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(aligned_to(block, alignof(max_align_t))) << size;
    }
    t_free(block);
}

/* C17 7.22.3p1: for size 0 a null pointer, or a pointer that is not used to access an object; glibc and we return one
   that differs from that of every other live object (p1: "disjoint from any other object"). posix_memalign:
   POSIX.1-2024 too. */
TEST(Standards, SizeZeroGivesABlockOfItsOwnInEveryFunction) {
    std::set<void *> seen;
    for (int round = 0; round < 1000; round++)
        for (const Allocator &allocator : allocators) {
            errno = EILSEQ;
            void *block = allocator.call(0);
            ASSERT_NE(block, nullptr) << allocator.name;
            EXPECT_EQ(errno, EILSEQ) << allocator.name;
            EXPECT_TRUE(seen.insert(block).second) << allocator.name << " returned a live block";
        }
    for (void *none : {t_calloc(0, 0), t_calloc(0, 16), t_calloc(16, 0)}) {
        ASSERT_NE(none, nullptr);
        EXPECT_TRUE(seen.insert(none).second);
    }
    for (void *block : seen)
        t_free(block);
}

/* C17 7.22.3.5p4: realloc returns NULL when it cannot allocate; then the old object stays. With size 0 C17 leaves to
   the implementation whether the old object is freed, C23 makes the call undefined; POSIX.1-2024 asks for a documented
   choice. glibc documents that it frees and returns NULL. errno does not say ENOMEM then, which programs use to tell
   the cases apart. */
TEST(Standards, ReallocToZeroFreesWithoutAnError) {
    for (size_t size : sample_sizes()) {
        size_t live = live_bytes();
        errno = EILSEQ;
        EXPECT_EQ(t_realloc(t_malloc(size), 0), nullptr) << size;
        EXPECT_EQ(t_realloc(t_malloc(0), 0), nullptr);
        EXPECT_EQ(t_reallocarray(t_malloc(size), 0, 8), nullptr) << size;
        EXPECT_EQ(t_reallocarray(t_malloc(size), 8, 0), nullptr) << size;
        EXPECT_EQ(t_reallocarray(t_malloc(size), 0, SIZE_MAX), nullptr) << size;
        EXPECT_EQ(errno, EILSEQ) << size;
        if (!t_system) {
            EXPECT_EQ(live_bytes(), live) << size;
        }
    }
}

/* C17 7.5p3 lets a library function change errno even when it succeeds. glibc's functions do not, and some programs set
   errno to 0 before a series of calls and read it afterwards. */
TEST(Standards, SuccessLeavesErrnoAlone) {
    for (const Allocator &allocator : allocators)
        for (size_t size : sample_sizes()) {
            errno = EILSEQ;
            void *block = allocator.call(size);
            EXPECT_EQ(errno, EILSEQ) << allocator.name << " of " << size;
            (void)t_usable_size(block);
            block = t_realloc(block, 2 * size);
            block = t_realloc(block, size / 2 + 1);
            EXPECT_EQ(errno, EILSEQ) << allocator.name << " of " << size << ", realloc";
            t_free(block);
        }
}

/* POSIX.1-2024, free(): errno is preserved if ptr is a null pointer or was returned by an allocation function.
   free_sized and free_aligned_sized (C23 7.24.3.4, 7.24.3.5) are free with a hint. */
TEST(Standards, EveryFreePreservesErrno) {
    for (size_t size : sample_sizes()) {
        void *plain = t_malloc(size);
        void *sized = t_malloc(size);
        void *aligned = t_aligned_alloc(64, size);
        errno = EILSEQ;
        t_free(plain);
        if (t_table.free_sized_fn != nullptr) {
            t_free_sized(sized, size);
            t_free_aligned_sized(aligned, 64, size);
            t_free_sized(nullptr, size);
            t_free_aligned_sized(nullptr, 64, size);
        } else {
            t_free(sized);
            t_free(aligned);
        }
        EXPECT_EQ(errno, EILSEQ) << size;
    }
}

/* C17 7.22.3p1 and glibc's manual ("Malloc Examples"): no object may be larger than PTRDIFF_MAX, since pointers within
   it could not be subtracted. reallocarray: also when the product fits into size_t. */
TEST(Standards, NothingIsLargerThanPtrdiffMax) {
    void *block = t_malloc(100);
    fill(block, 100, 1);
    for (size_t size :
         {static_cast<size_t>(PTRDIFF_MAX), static_cast<size_t>(PTRDIFF_MAX) + 1, SIZE_MAX - 4096, SIZE_MAX}) {
        for (const Allocator &allocator : allocators) {
            errno = 0;
            EXPECT_EQ(allocator.call(size), nullptr) << allocator.name << " of " << size;
            EXPECT_EQ(errno, ENOMEM) << allocator.name << " of " << size;
        }
        errno = 0;
        EXPECT_EQ(t_reallocarray(block, 1, size), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
    }
    EXPECT_TRUE(holds(block, 100, 1));
    t_free(block);
}

/* ---- threads ---- */

/* Enough small blocks to fill bins, which empties them too. */
void use_every_function() {
    for (const Allocator &allocator : allocators)
        for (size_t size : {size_t{0}, size_t{20}, size_t{3000}, 50 * KiB, 300 * KiB, 5 * MiB}) {
            void *blocks[300];
            size_t count = size <= 3000 ? 300 : 3;
            for (size_t i = 0; i < count; i++)
                blocks[i] = allocator.call(size);
            for (size_t i = 0; i < count; i++)
                blocks[i] = t_realloc(blocks[i], size + 100);
            for (size_t i = 0; i < count; i++)
                t_free(blocks[i]);
        }
    t_give_back();
}

struct Cancelled {
    bool was_reached = false;
    bool left_late = false;
};

void *use_while_cancelled(void *argument) {
    auto *seen = static_cast<Cancelled *>(argument);
    pthread_cancel(pthread_self());
    use_every_function();
    seen->was_reached = true;
    pthread_testcancel();
    seen->left_late = true;
    return nullptr;
}

/* POSIX.1-2024 2.9.5.2 lists the cancellation points, and what may be one; the malloc family is in neither list. */
TEST(Standards, NoFunctionIsACancellationPoint) {
    if (sanitized)
        GTEST_SKIP() << "AddressSanitizer takes the frames that a cancelled thread has left for live ones";
    Cancelled seen;
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, use_while_cancelled, &seen), 0);
    void *result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_TRUE(seen.was_reached) << "the thread was cancelled inside the malloc family";
    EXPECT_FALSE(seen.left_late);
    EXPECT_EQ(result, PTHREAD_CANCELED);
}

void *create_while_cancelled(void *argument) {
    pthread_cancel(pthread_self());
    pthread_t thread;
    int error = pthread_create(
        &thread, nullptr, [](void *nothing) { return nothing; }, nullptr);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    if (error == 0)
        pthread_join(thread, nullptr);
    *static_cast<bool *>(argument) = error == 0;
    return nullptr;
}

/* The same list lacks pthread_create, which the preloaded library replaces, and in which the keeper starts. */
TEST(Standards, PthreadCreateIsNoCancellationPoint) {
    bool created = false;
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, create_while_cancelled, &created), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    EXPECT_TRUE(created);
}

void *use_on_a_small_stack(void *) {
    use_every_function();
    return nullptr;
}

/* A thread may have a stack of PTHREAD_STACK_MIN bytes (POSIX.1-2024, <limits.h>), part of which the C library takes.
 */
TEST(Standards, TheSmallestStackIsEnough) {
    if (sanitized)
        GTEST_SKIP() << "sanitizers need more stack";
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, static_cast<size_t>(PTHREAD_STACK_MIN)), 0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, &attributes, use_on_a_small_stack, nullptr), 0);
        ASSERT_EQ(pthread_join(thread, nullptr), 0);
    }
    pthread_attr_destroy(&attributes);
}

tss_t late;

void free_late(void *block) {
    t_free(block);
    use_every_function();
}

int use_in_a_c11_thread(void *argument) {
    use_every_function();
    (void)tss_set(late, t_malloc(1000));
    return *static_cast<int *>(argument);
}

/* src/front/override/override_thread.c relies on these facts, since it does not include <threads.h>. */
static_assert(thrd_success == 0 && thrd_error == 2 && thrd_nomem == 3);
static_assert(sizeof(thrd_t) == sizeof(pthread_t));

/* C11 7.26: threads that thrd_create starts, with a destructor of thread-specific storage that allocates and frees. */
TEST(Standards, C11ThreadsAllocate) {
    ASSERT_EQ(tss_create(&late, free_late), thrd_success);
    std::array<thrd_t, 4> threads = {};
    int answer = 42;
    for (thrd_t &thread : threads)
        ASSERT_EQ(thrd_create(&thread, use_in_a_c11_thread, &answer), thrd_success);
    for (thrd_t thread : threads) {
        int result = 0;
        ASSERT_EQ(thrd_join(thread, &result), thrd_success);
        EXPECT_EQ(result, 42);
    }
    tss_delete(late);
}

} // namespace
