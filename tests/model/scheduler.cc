/*
 * scheduler.cc - the threads of a scenario and their baton. Each thread has a semaphore, and only the thread whose
 * semaphore was posted runs. Thread-local variables and exit hooks are the real ones. This file also replaces the
 * functions of the OS layer for time, CPUs, and waiting for locks.
 */
#include "model/hooks.h"
#include "model/run.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C" {
#include "base/os/os.h"
}

namespace model {

Run *run;
thread_local Thread *myself;

namespace {

constexpr unsigned early_one_in = 8;
constexpr unsigned exit_rounds = 3; /* rounds of thread exit hooks, after which the library's hook has run */
constexpr uint64_t points_per_ms = 4;

pthread_key_t end_key; /* its hook is called when a thread of the scenario ends */

void note(const char *file, int line, unsigned place) {
    Report &report = *run->report;
    report.last[report.noted++ % Report::STEPS_KEPT] = {myself->index, file, line, place, false};
}

std::string base_name(const char *file) {
    const char *slash = std::strrchr(file, '/');
    return slash == nullptr ? file : slash + 1;
}

void wait_for_baton() {
    while (sem_wait(&myself->baton) != 0 && errno == EINTR) {
    }
}

[[noreturn]] void fail_deadlock() {
    std::string text = "deadlock: no thread can go on";
    for (unsigned index = 0; index < run->count; index++) {
        const Thread &thread = run->threads[index];
        if (thread.state == State::ASLEEP && index > 0)
            text += "; thread " + std::to_string(index) + " sleeps at " + base_name(thread.file) + ":" +
                    std::to_string(thread.line);
    }
    fail(text);
}

/* Chooses the thread that runs next. The current thread may be asleep or at its end. */
Thread &choose(bool repeated) {
    static Situation situation; /* kept for its memory */
    situation.current = myself->index;
    situation.can_go_on = myself->state == State::READY;
    situation.repeated = repeated;
    situation.threads.clear();
    for (unsigned index = 0; index < run->count; index++)
        if (run->threads[index].state == State::READY)
            situation.threads.push_back(index);
    if (situation.threads.empty())
        fail_deadlock();
    return run->threads[run->schedule.next(situation)];
}

void go_on(Thread &next) {
    if (&next == myself)
        return;
    sem_post(&next.baton);
    wait_for_baton();
}

bool ends_with(const char *text, const char *end) {
    size_t length = std::strlen(text);
    return length >= std::strlen(end) && std::strcmp(text + length - std::strlen(end), end) == 0;
}

/* Only the thread itself changes its counters and bins, so operations on them are no points. */
bool is_private(const char *file) {
    static const char *last_file;
    static bool last_answer;
    if (file != last_file) {
        last_file = file;
        last_answer = ends_with(file, "/heap/counters.h") || ends_with(file, "/heap/cache/bin.h") ||
                      ends_with(file, "/heap/threads/thread_block.c");
    }
    return last_answer;
}

/* The library's exit hook can run after this one. So this one asks for another round twice, and ends the thread in the
   third round. */
void thread_end(void *value) {
    if (++myself->endings < exit_rounds) {
        pthread_setspecific(end_key, value);
        return;
    }
    if (!myself->delayed.empty())
        go_on(choose(false));
    settle_all(*myself);
    myself->state = State::ENDED;
    bool others = false;
    for (unsigned index = 1; index < run->count; index++)
        others = others || run->threads[index].state != State::ENDED;
    if (!others)
        run->threads[0].state = State::READY;
    sem_post(&choose(false).baton); /* from here on this thread touches nothing of the scheduler */
}

void *thread_main(void *argument) {
    myself = static_cast<Thread *>(argument);
    wait_for_baton();
    pthread_setspecific(end_key, myself);
    myself->body();
    return nullptr;
}

} // namespace

void point_after() {
    go_on(choose(true));
}

Run::Run(const Plan &plan, Report *report_) : schedule(plan), report(report_) {
    if (pthread_key_create(&end_key, thread_end) != 0)
        std::abort();
}

void together(const std::vector<std::function<void()>> &bodies) {
    for (const std::function<void()> &body : bodies) {
        Thread &thread = run->threads.at(run->count);
        thread.index = run->count++;
        thread.body = body;
        thread.clock = past();
        if (sem_init(&thread.baton, 0, 0) != 0 || pthread_create(&thread.handle, nullptr, thread_main, &thread) != 0)
            std::abort();
    }
    if (sem_init(&myself->baton, 0, 0) != 0)
        std::abort();
    run->together = true;
    sleep_on(run);
    run->together = false;
    run->report->steps = run->schedule.steps();
    run->report->impossible = run->schedule.is_impossible();
    for (unsigned index = 1; index < run->count; index++) {
        pthread_join(run->threads[index].handle, nullptr);
        add_past(run->threads[index].clock);
    }
}

void fail(const std::string &text) {
    if (run != nullptr) {
        std::snprintf(run->report->text, sizeof(run->report->text), "%s", text.c_str());
        run->report->steps = run->schedule.steps();
    }
    _exit(1);
}

void reached(unsigned fact) {
    run->report->facts[fact]++;
}

unsigned pick(unsigned end) {
    return run->schedule.below(end);
}

unsigned thread_number() {
    return myself->index;
}

void point(const char *file, int line, const void *place) {
    hz_model_point(file, line, place);
}

void sleep_on(const void *place) {
    myself->state = State::ASLEEP;
    myself->sleeps_on = place;
    settle_all(*myself);
    go_on(choose(false));
}

void wake_all(const void *place) {
    settle_all(*myself);
    for (unsigned index = 0; index < run->count; index++)
        if (run->threads[index].state == State::ASLEEP && run->threads[index].sleeps_on == place)
            run->threads[index].state = State::READY;
}

Clock past() {
    settle_all(*myself);
    now(); /* so that the past does not include what this thread does later */
    return myself->clock;
}

void add_past(const Clock &clock) {
    myself->clock.join(clock);
}

/* ---- the ledger ----------------------------------------------------------------------------- */

namespace {

/* The ledger marks all words of a small block but the link, and only the start of a large block, which is faster. */
constexpr size_t words_most = 8;

template <typename Visit> void each_word(void *block, size_t bytes, Visit visit) {
    auto *words = static_cast<uint64_t *>(block);
    for (size_t i = 1; i < bytes / sizeof(*words) && i < words_most; i++)
        visit(words[i], i);
}

} // namespace

void Ledger::taken(void *block, size_t bytes, bool kept) {
    if (block == nullptr)
        fail("no block");
    auto [found, is_new] = entries_.try_emplace(block);
    Entry &entry = found->second;
    if (!is_new && entry.is_held)
        fail("a block has two holders");
    if (!is_new && !has_happened(entry.given))
        fail("a block has come without its past: what thread " + std::to_string(entry.given.thread) +
             " did to it need not have happened before");
    bool changed = false;
    if (kept && !is_new)
        each_word(block, bytes, [&](uint64_t word, size_t i) { changed = changed || word != entry.mark + i; });
    if (changed)
        fail("a block has changed on its way");
    entry = {true, marks_ += 0x10000, bytes, {}};
    each_word(block, bytes, [&](uint64_t &word, size_t i) { word = entry.mark + i; });
    held_++;
}

void Ledger::given(void *block) {
    auto found = entries_.find(block);
    if (found == entries_.end() || !found->second.is_held)
        fail("a block was given up by a thread that does not hold it");
    Entry &entry = found->second;
    bool changed = false;
    each_word(block, entry.bytes, [&](uint64_t word, size_t i) { changed = changed || word != entry.mark + i; });
    if (changed)
        fail("a block has changed while it was held");
    entry.is_held = false;
    entry.given = now();
    held_--;
}

} // namespace model

/* ---- functions that the library calls ---------------------------------------------------------------------------- */

using namespace model;

void hz_model_point(const char *file, int line, const volatile void *place) {
    if (myself == nullptr)
        return;
    myself->at_private = is_private(file);
    if (myself->at_private)
        return;
    run->points++;
    if (!run->together)
        return;
    settle_some(*myself);
    auto known = run->places.find(place);
    bool repeated = myself->file == file && myself->line == line;
    if (!repeated)
        note(file, line, known == run->places.end() ? 0 : known->second.number);
    myself->file = file;
    myself->line = line;
    if (run->schedule.steps() > STEPS_MAX)
        fail("livelock: " + std::to_string(STEPS_MAX) + " steps, and no end");
    go_on(choose(repeated));
}

extern "C" {

/* Works as a futex. A wait without other threads is a deadlock, because no thread could end it. */
void hz_os_wait(const void *word, uint32_t expected) {
    if (myself == nullptr)
        return;
    hz_model_point(__FILE__, __LINE__, word);
    settle_all(*myself);
    if (*static_cast<const volatile uint32_t *>(word) != expected)
        return;
    if (!run->together)
        fail_deadlock();
    if (run->schedule.is_weak() && run->schedule.chance(early_one_in))
        return;
    sleep_on(word);
}

void hz_os_wake(const void *word, int count) {
    if (myself == nullptr)
        return;
    settle_all(*myself);
    std::vector<Thread *> sleepers;
    for (unsigned index = 1; index < run->count; index++)
        if (run->threads[index].state == State::ASLEEP && run->threads[index].sleeps_on == word)
            sleepers.push_back(&run->threads[index]);
    for (; count > 0 && !sleepers.empty(); count--) {
        auto woken = sleepers.begin() + run->schedule.below(static_cast<unsigned>(sleepers.size()));
        (*woken)->state = State::READY;
        sleepers.erase(woken);
    }
}

/* No time passes while all threads sleep. */
void hz_os_wait_ms(const void *word, uint32_t expected, uint32_t) {
    hz_os_wait(word, expected);
}

/* There are two CPUs. A thread can be on either at any time, but mostly on the first, because many bugs need several
   threads on one CPU. */
void hz_os_scan_file(const char *path, bool (*take)(void *, const char *, size_t), void *context) {
    const char *text = strcmp(path, "/proc/thread-self/status") == 0 ? "Name:\tmodel\nCpus_allowed:\t3\n" : "";
    take(context, text, strlen(text));
}

void hz_os_read_file(const char *, char *text, size_t) {
    text[0] = '\0';
}

uint32_t hz_os_cpu(void) {
    return myself != nullptr && run->schedule.chance(8) ? 1 : 0;
}

/* Every thread passes a barrier: from now on each knows what any of them has done so far. */
bool hz_os_barrier(void) {
    if (run == nullptr)
        return true;
    hz_model_point(__FILE__, __LINE__, run);
    Clock all;
    for (unsigned i = 0; i < run->count; i++)
        settle_all(run->threads[i]);
    for (unsigned i = 0; i < run->count; i++)
        all.join(run->threads[i].clock);
    for (unsigned i = 0; i < run->count; i++)
        run->threads[i].clock.join(all);
    return true;
}

/* Time advances with the steps, so that it is the same in every run of a schedule. */
uint64_t hz_os_now_ms(void) {
    return run == nullptr ? 1 : 1 + run->points / points_per_ms;
}

} // extern "C"
