/*
 * soak.cc - runs rounds of seeded operations for a given time. Linked with a lane's library it calls our own names;
 * built with HZ_TEST_SYSTEM=1 it is a program on plain malloc, for LD_PRELOAD.
 */
#include "operations/run.h"

#include <ctime>

namespace {

using namespace operations;

struct Options {
    uint64_t seconds = 10;
    uint64_t rounds = UINT64_MAX;
    uint64_t seed = 1;
    uint64_t threads = 4;
    uint64_t steps = 0; /* 0: by kind */
    uint64_t limit = 1200;
    const char *kind = "both";
    const char *inputs = nullptr;
};

constexpr const char *usage =
    "usage: soak [--seconds N] [--rounds N] [--seed N] [--threads N] [--steps N] [--kind KIND] [--limit N]\n"
    "  --seconds  begins no round after so many seconds (10)\n"
    "  --rounds   ends after so many rounds\n"
    "  --seed     of the first round; the others have the following numbers (1)\n"
    "  --threads  actors that act at the same time (4)\n"
    "  --steps    operations of each thread in a round (8000); in lockstep, bytes (20000)\n"
    "  --kind     threads, lockstep, or both: every fourth round in lockstep (both)\n"
    "  --limit    seconds a round may take (1200)\n"
    "or:    soak --write-inputs DIRECTORY\n"
    "  writes inputs for a fuzzer to begin with, which together choose each operation\n";

struct Number {
    const char *name;
    uint64_t Options::*field;
    uint64_t low, high;
};

constexpr Number numbers[] = {
    {"--seconds", &Options::seconds, 0, 10'000'000}, {"--rounds", &Options::rounds, 1, UINT64_MAX},
    {"--seed", &Options::seed, 0, UINT64_MAX},       {"--threads", &Options::threads, 1, 1000},
    {"--steps", &Options::steps, 1, 1'000'000'000},  {"--limit", &Options::limit, 1, 100'000},
};

[[noreturn]] void refuse(const char *name, const char *value, const char *allowed) {
    fprintf(stderr, "soak: %s is '%s'; allowed: %s\n%s", name, value, allowed, usage);
    exit(2);
}

void read_number(Options &options, const Number &number, const char *value) {
    char *end = nullptr;
    errno = 0;
    unsigned long long read = strtoull(value, &end, 10);
    char allowed[80];
    snprintf(allowed, sizeof allowed, "a number from %" PRIu64 " to %" PRIu64, number.low, number.high);
    bool is_number = *value >= '0' && *value <= '9' && *end == '\0' && errno == 0;
    if (!is_number || read < number.low || read > number.high)
        refuse(number.name, value, allowed);
    options.*number.field = read;
}

void read_option(Options &options, const char *name, const char *value) {
    if (strcmp(name, "--kind") == 0) {
        if (strcmp(value, "threads") != 0 && strcmp(value, "lockstep") != 0 && strcmp(value, "both") != 0)
            refuse(name, value, "threads, lockstep, both");
        options.kind = value;
        return;
    }
    if (strcmp(name, "--write-inputs") == 0) {
        options.inputs = value;
        return;
    }
    for (const Number &number : numbers)
        if (strcmp(name, number.name) == 0) {
            read_number(options, number, value);
            return;
        }
    refuse("the option", name, "those below");
}

Options read_options(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            refuse(argv[i], "", "a value after it");
        read_option(options, argv[i], argv[i + 1]);
    }
    return options;
}

Round round_of(const Options &options, uint64_t number) {
    bool lockstep = strcmp(options.kind, "lockstep") == 0 || (strcmp(options.kind, "both") == 0 && number % 4 == 3);
    uint64_t steps = options.steps != 0 ? options.steps : lockstep ? 20000 : 8000;
    return {lockstep ? Kind::lockstep : Kind::threads, options.seed + number, options.threads, steps};
}

/* A figure after each round. The first rounds show what the process needs. */
class Growth {
  public:
    explicit Growth(size_t allowed) : allowed_(allowed) {
    }
    void add(size_t bytes) {
        size_t &most = rounds_++ < 12 ? most_early_ : most_late_;
        most = std::max(most, bytes);
    }
    bool is_bounded() const {
        return support::sanitized || most_late_ <= most_early_ + allowed_;
    }
    size_t most() const {
        return std::max(most_early_, most_late_);
    }

  private:
    size_t allowed_;
    size_t rounds_ = 0;
    size_t most_early_ = 0;
    size_t most_late_ = 0;
};

void write_input(const char *directory, const char *name, const uint8_t *bytes, size_t count) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    for (char *at = path + strlen(directory) + 1; *at != '\0'; at++)
        *at = *at == ' ' ? '-' : *at;
    FILE *file = fopen(path, "we");
    if (file == nullptr || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* One input for each operation: random bytes, in which every eighth byte chooses that operation. */
template <size_t count>
void write_inputs_of(const char *directory, const Operation (&table)[count], const uint8_t *first, size_t first_count) {
    size_t choice = 0;
    for (const Operation &operation : table) {
        uint8_t bytes[160];
        fill_bytes(bytes, sizeof bytes, choice);
        for (size_t i = 0; i + 2 < sizeof bytes; i += 8) {
            memcpy(bytes + i, first, first_count);
            bytes[i + first_count] = static_cast<uint8_t>(choice);
        }
        write_input(directory, operation.name, bytes, sizeof bytes);
        choice += operation.weight;
    }
}

int write_inputs(const char *directory) {
    uint8_t rare = static_cast<uint8_t>(weight_of(common_operations) - 1); /* the last one */
    write_inputs_of(directory, common_operations, &rare, 0);
    write_inputs_of(directory, rare_operations, &rare, 1);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint8_t bytes[400];
        char name[20];
        snprintf(name, sizeof name, "seed %" PRIu64, seed);
        fill_bytes(bytes, sizeof bytes, seed);
        write_input(directory, name, bytes, sizeof bytes);
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    Options options = read_options(argc, argv);
    if (options.inputs != nullptr)
        return write_inputs(options.inputs);
    repeat_install();
    time_t start = time(nullptr);
    uint64_t rounds = 0;
    uint64_t steps = 0;
    Growth resident(48 * MiB);
    Growth live(MiB); /* as a plain malloc program the process itself has live blocks too */
    while (rounds < options.rounds && time(nullptr) - start < static_cast<time_t>(options.seconds)) {
        alarm(static_cast<unsigned>(options.limit));
        Result result = run_round(t_table, round_of(options, rounds));
        alarm(0);
        rounds++;
        steps += result.steps;
        resident.add(support::resident_bytes());
        live.add(result.live_bytes);
    }
    bool good = resident.is_bounded() && live.is_bounded();
    printf("soak: %" PRIu64 " rounds, %" PRIu64
           " operations, %zu signals, %ld s, after a round at most %zu KiB live and "
           "%zu MiB resident: %s\n",
           rounds, steps, signals_caught.load(), static_cast<long>(time(nullptr) - start), live.most() / KiB,
           resident.most() / MiB, good ? "good" : "memory grew");
    return good ? 0 : 1;
}
