// starter.cc - a constructor that starts threads and waits for what they do. Part of a program, of a library that it is
// linked with, of one that is preloaded, or of one that it opens. STARTER_WAY says how the threads are started. With
// STARTER_LOOKS=1 they also call the dynamic linker: not possible in a library that dlopen is opening, since dlopen
// holds the linker's lock. The compiler is told the constructor's PRIORITY.
#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kRounds = 40;
constexpr unsigned kSecondsForAll = 60; // then it is a hang
sem_t done;
std::vector<void *> blocks; // of the threads, for the program's thread

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "starter: %s\n", what);
    _exit(1);
}

void use_malloc() {
    for (size_t size = 1; size < 100000; size = size * 2 + 5) {
        auto *block = static_cast<char *>(std::malloc(size));
        std::memset(block, 7, size);
        block = static_cast<char *>(std::realloc(block, size * 2));
        if (block[size - 1] != 7)
            fail("realloc lost bytes");
        std::free(block);
    }
}

void use_linker() {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == nullptr || dlsym(library, "cos") == nullptr || dlsym(RTLD_DEFAULT, "malloc") == nullptr)
        fail("libm.so.6 cannot be opened");
    dlclose(library);
}

void *inner(void *block) {
    std::free(block);
    use_malloc();
    return std::malloc(100);
}

int inner_c11(void *block) {
    std::free(block);
    use_malloc();
    return 42;
}

// What each thread does: it allocates, and starts further threads in both ways.
void work() {
    use_malloc();
    pthread_t thread;
    void *block = nullptr;
    if (pthread_create(&thread, nullptr, inner, std::malloc(10)) != 0 || pthread_join(thread, &block) != 0)
        fail("pthread_create failed");
    std::free(block);
    thrd_t c11;
    int answer = 0;
    if (thrd_create(&c11, inner_c11, std::malloc(10)) != thrd_success || thrd_join(c11, &answer) != thrd_success ||
        answer != 42)
        fail("thrd_create failed");
    if (std::getenv("STARTER_LOOKS") != nullptr)
        use_linker();
    blocks.push_back(std::malloc(2000)); // one thread at a time
    sem_post(&done);
}

void wait_for_work() {
    while (sem_wait(&done) != 0) {
    }
}

void *work_pthread(void *) {
    work();
    return nullptr;
}

int work_c11(void *) {
    work();
    return 0;
}

void work_signal(sigval) {
    work();
}

void by_pthread() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work_pthread, nullptr) != 0)
        fail("pthread_create failed");
    wait_for_work();
    pthread_join(thread, nullptr);
}

void by_c11() {
    thrd_t thread;
    if (thrd_create(&thread, work_c11, nullptr) != thrd_success)
        fail("thrd_create failed");
    wait_for_work();
    thrd_join(thread, nullptr);
}

void by_std() {
    std::thread thread(work);
    wait_for_work();
    thread.join();
}

void by_timer() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = work_signal;
    timer_t timer;
    itimerspec soon{};
    soon.it_value.tv_nsec = 1;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, nullptr) != 0)
        fail("timer_create failed");
    wait_for_work();
    timer_delete(timer);
}

void by_aio() {
    char text[100];
    int file = open("/proc/self/exe", O_RDONLY);
    aiocb request{};
    request.aio_fildes = file;
    request.aio_buf = text;
    request.aio_nbytes = sizeof text;
    request.aio_sigevent.sigev_notify = SIGEV_THREAD;
    request.aio_sigevent.sigev_notify_function = work_signal;
    if (aio_read(&request) != 0)
        fail("aio_read failed");
    wait_for_work();
    while (aio_error(&request) == EINPROGRESS) {
    }
    close(file);
}

__attribute__((constructor(PRIORITY))) void start() {
    const std::string way = std::getenv("STARTER_WAY");
    void (*const by)() = way == "pthread" ? by_pthread
                         : way == "c11"   ? by_c11
                         : way == "std"   ? by_std
                         : way == "timer" ? by_timer
                                          : by_aio;
    sem_init(&done, 0, 0);
    alarm(kSecondsForAll);
    for (unsigned round = 0; round < kRounds; round++)
        by();
    alarm(0);
    for (void *block : blocks)
        std::free(block);
    if (blocks.size() != kRounds)
        fail("a thread has not worked");
    blocks = {};
    std::fputs("started\n", stderr);
}

} // namespace
