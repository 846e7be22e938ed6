/*
 * profiled.cc - allocates at known sites, and prints for each what it did: the function's name, blocks and bytes
 * allocated, blocks and bytes live. For tests/preload/test_profile.py.
 *
 *   profiled mix MIB [THREADS]   about so many MiB in each thread
 *   profiled leak                leaks in one function among many that do not
 *   profiled fork                the child allocates too
 *   profiled step                grows at each line of stdin
 *   profiled pass                at each line of stdin passes blocks to two threads, which free them
 *   profiled ask                 asks for the size of a block until a signal ends it
 */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Site {
    const char *name;
    void *(*allocate)(size_t size);
    size_t size;
    size_t live_of; /* one in so many stays live */
};

#define SITE __attribute__((noinline, noclone)) void *

template <typename Pointer> Pointer kept(Pointer pointer) {
    asm volatile("" : : "r"(pointer) : "memory"); /* no tail call, so the function is in the call stack */
    return pointer;
}

SITE by_malloc_small(size_t size) {
    return kept(malloc(size));
}
SITE by_malloc_medium(size_t size) {
    return kept(malloc(size));
}
SITE by_malloc_large(size_t size) {
    return kept(malloc(size));
}
SITE by_malloc_mapped(size_t size) {
    return kept(malloc(size));
}
SITE by_calloc(size_t size) {
    return kept(calloc(1, size));
}
SITE by_aligned(size_t size) {
    return kept(aligned_alloc(64, size));
}
SITE by_new(size_t size) {
    return kept(::operator new(size));
}

const Site sites[] = {
    {"by_malloc_small", by_malloc_small, 100, 3},
    {"by_malloc_medium", by_malloc_medium, 5000, 4},
    {"by_malloc_large", by_malloc_large, 100000, 5},
    {"by_malloc_mapped", by_malloc_mapped, 3000000, 7},
    {"by_calloc", by_calloc, 700, 2},
    {"by_aligned", by_aligned, 1000, 6},
    {"by_new", by_new, 48, 9},
};
constexpr size_t site_count = sizeof(sites) / sizeof(sites[0]);

struct Done {
    size_t blocks, bytes, live_blocks, live_bytes;
};

/* An equal share of the bytes for each site. Live blocks are never touched, so they cost little. */
void mix(size_t bytes, Done *done) {
    size_t share = bytes / site_count;
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        for (size_t i = 0; i < site_count; i++) {
            const Site &site = sites[i];
            if (done[i].bytes >= share)
                continue;
            goes_on = true;
            void *block = site.allocate(site.size);
            done[i].blocks++;
            done[i].bytes += site.size;
            if (done[i].blocks % site.live_of == 0) {
                done[i].live_blocks++;
                done[i].live_bytes += site.size;
            } else {
                free(block);
            }
        }
    }
}

void print(const Done *done) {
    for (size_t i = 0; i < site_count; i++)
        printf("%s %zu %zu %zu %zu\n", sites[i].name, done[i].blocks, done[i].bytes, done[i].live_blocks,
               done[i].live_bytes);
}

void mix_in_threads(size_t bytes, size_t count) {
    std::vector<Done> done(site_count * count);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; i++)
        threads.emplace_back([&done, bytes, i] { mix(bytes, &done[i * site_count]); });
    for (std::thread &thread : threads)
        thread.join();
    for (size_t i = site_count; i < done.size(); i++) {
        Done &sum = done[i % site_count];
        sum = {sum.blocks + done[i].blocks, sum.bytes + done[i].bytes, sum.live_blocks + done[i].live_blocks,
               sum.live_bytes + done[i].live_bytes};
    }
    print(done.data());
}

struct Session {
    std::string name;
    std::vector<char> buffer;
};

std::vector<Session *> forgotten;

__attribute__((noinline)) void leak_a_session(size_t number) {
    auto *session = new Session{"session " + std::to_string(number) + " of a long name", std::vector<char>(3000)};
    if (number % 2 == 0)
        delete session;
    else
        forgotten.push_back(session);
}

/* Most allocations are elsewhere, and are freed. */
void leak() {
    for (size_t i = 0; i < 20000; i++) {
        std::vector<std::unique_ptr<std::string>> words;
        for (size_t word = 0; word < 20; word++)
            words.push_back(std::make_unique<std::string>(100 + i % 400, 'x'));
        leak_a_session(i);
    }
    printf("%zu\n", forgotten.size());
}

/* A thread that frees what it is given. Nothing but the blocks is allocated. */
class Consumer {
  public:
    Consumer() : thread([this] { run(); }) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return number != 0; });
    }
    ~Consumer() {
        give(nullptr);
        thread.join();
    }
    long id() const {
        return number;
    }

    void give(void *block) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return count < room; });
        blocks[count++] = block;
        changed.notify_all();
    }

    void wait_until_all_is_freed() {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return count == 0; });
    }

  private:
    static constexpr size_t room = 100;

    void run() {
        std::unique_lock<std::mutex> lock(mutex);
        number = syscall(SYS_gettid);
        for (bool goes_on = true; goes_on;) {
            changed.notify_all();
            changed.wait(lock, [this] { return count > 0; });
            for (; count > 0; count--) {
                goes_on = goes_on && blocks[count - 1] != nullptr;
                free(blocks[count - 1]);
            }
        }
        changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable changed;
    void *blocks[room] = {};
    size_t count = 0;
    long number = 0;
    std::thread thread;
};

/* 20 MB to the first, 80 MB to the second; 50 MB it frees itself. */
void pass() {
    Consumer first;
    Consumer second;
    printf("%ld %ld %ld\n", syscall(SYS_gettid), first.id(), second.id());
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof(line), stdin) != nullptr;) {
        for (int i = 0; i < 4000; i++) {
            for (int j = 0; j < 50; j++)
                first.give(by_malloc_small(100));
            for (int j = 0; j < 4; j++)
                second.give(by_malloc_medium(5000));
            free(by_calloc(12500));
        }
        first.wait_until_all_is_freed();
        second.wait_until_all_is_freed();
        printf("passed\n");
        fflush(stdout);
    }
}

/* Until a signal ends it. Another thread prints that it has begun, so the signal finds this one asking. */
void ask(void *block) {
    std::atomic<size_t> asked{0};
    std::thread other([&asked] {
        while (asked < 1000)
            std::this_thread::yield();
        printf("asking\n");
        fflush(stdout);
    });
    while (malloc_usable_size(block) != 0)
        asked++;
    other.join();
}

} // namespace

int main(int count, char **arguments) {
    std::string what = count > 1 ? arguments[1] : "";
    if (what == "mix" && count > 2) {
        mix_in_threads(strtoul(arguments[2], nullptr, 10) << 20, count > 3 ? strtoul(arguments[3], nullptr, 10) : 1);
    } else if (what == "leak") {
        leak();
    } else if (what == "fork") {
        kept(by_malloc_medium(50000));
        pid_t child = fork();
        kept(child == 0 ? by_calloc(60000) : by_new(60000));
        int status = 0;
        if (child == 0)
            return 0;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 1;
        printf("%d\n", static_cast<int>(child));
    } else if (what == "step") {
        printf("%d\n", static_cast<int>(getpid()));
        fflush(stdout);
        for (char line[16]; fgets(line, sizeof(line), stdin) != nullptr;) {
            for (int i = 0; i < 100; i++)
                kept(by_malloc_medium(5000));
            printf("grown\n");
            fflush(stdout);
        }
    } else if (what == "pass") {
        pass();
    } else if (what == "ask") {
        ask(by_malloc_medium(5000));
    } else {
        fprintf(stderr, "profiled: '%s'; allowed: mix MIB [THREADS], leak, fork, step, pass, ask\n", what.c_str());
        return 2;
    }
    return 0;
}
