/*
 * kv_load - loads a redis-server or memcached over its unix socket and checks every value that comes back.
 *
 * CLIENTS connections. Each sends PIPELINE requests in one piece, waits for all replies, then sends the next batch. The
 * latency of a request is the time from sending its batch to the arrival of its reply.
 * Three phases: store all keys (not measured), make REQUESTS random requests (measured), read all keys (not measured).
 * With --delete-all a fourth phase deletes all keys. With --snapshot redis-server writes its dump in the background, in
 * a fork of itself, from the start of the measured phase on.
 *
 * Client c owns the keys k with k % CLIENTS == c, so it knows what each of its keys holds: nothing, or the value of
 * version v, whose size and bytes follow from key and version. A miss of a stored key, a hit of a deleted one, wrong
 * bytes, an error reply and a closed connection all end the program with a message and exit code 1.
 *
 * The requests depend only on the arguments, so `result=` must be the same under every allocator.
 * The program has one thread and uses epoll; no call on a socket blocks. It runs beside the program under test and
 * takes its own memory before the measured phase.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/args.h"
#include "common/machine.h"
#include "common/rng.h"

enum {
    VALUE_BYTES_MAX = 1 << 20,
    LINE_BYTES_MAX = 96, /* a request or a reply, without the value */
    CLIENTS_MAX = 1024,
    PIPELINE_MAX = 1024,
    TICKS_PER_US = 10, /* resolution of latencies */
    TICKS_MAX = 1 << 20,
};

enum operation { OP_SET, OP_GET, OP_DELETE };
enum protocol { PROTOCOL_REDIS, PROTOCOL_MEMCACHED };
static const char *const protocol_words[] = {"redis", "memcached", NULL};

struct config {
    const char *socket_path;
    uint64_t requests, keys, protocol, clients, pipeline, value_min, value_max, set_percent, delete_percent, delete_all,
        snapshot, seed;
};

/* A request, with what its reply must be. */
struct request {
    enum operation op;
    uint32_t key;
    uint32_t version; /* of the value that a GET must return; 0: no value */
};

struct client {
    int fd;
    struct request *pending; /* room for config.pipeline requests */
    uint32_t pending_count, answered_count;
    char *out, *in;
    size_t out_bytes, out_sent, in_bytes;
    bool waits_to_send; /* epoll watches for space in the socket's buffer */
    uint64_t sent_ns;
    /* Random numbers and requests left in the measured phase. Each client has its own, so the requests do not depend on
       the order of the replies. */
    uint64_t rng, left;
    uint32_t next_key; /* for the phases that go through all keys */
};

enum phase { PHASE_STORE, PHASE_MEASURE, PHASE_READ, PHASE_DELETE };

struct load {
    struct config config;
    struct client *clients;
    uint32_t *versions; /* the version of each key; 0: not stored */
    uint32_t *last_versions;
    char *pattern; /* values are slices of this */
    size_t in_capacity, out_capacity;
    uint32_t *ticks; /* histogram of latencies */
    enum phase phase;
    uint64_t answered, counts[3], hits, value_bytes;
    int epoll_fd;
};

static uint64_t mix(uint32_t key, uint32_t version) {
    uint64_t state = (uint64_t)key << 32 | version;
    return rng_next(&state);
}

static uint32_t value_bytes_of(const struct load *load, uint32_t key, uint32_t version) {
    uint64_t state = mix(key, version);
    return (uint32_t)load->config.value_min +
           rng_below(&state, (uint32_t)(load->config.value_max - load->config.value_min + 1));
}

static const char *value_of(const struct load *load, uint32_t key, uint32_t version) {
    return load->pattern + mix(version, key) % VALUE_BYTES_MAX;
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void append(struct client *client, const char *bytes, size_t count) {
    memcpy(client->out + client->out_bytes, bytes, count);
    client->out_bytes += count;
}

static void append_line(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append_line(struct client *client, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int count = vsnprintf(client->out + client->out_bytes, LINE_BYTES_MAX, format, args);
    va_end(args);
    client->out_bytes += (size_t)count;
}

static void append_request(const struct load *load, struct client *client, const struct request *request) {
    static const char *const redis_heads[] = {"*3\r\n$3\r\nSET\r\n", "*2\r\n$3\r\nGET\r\n", "*2\r\n$3\r\nDEL\r\n"};
    uint32_t bytes = request->op == OP_SET ? value_bytes_of(load, request->key, request->version) : 0;
    if (load->config.protocol == PROTOCOL_REDIS) {
        append_line(client, "%s$12\r\nkey:%08" PRIx32 "\r\n", redis_heads[request->op], request->key);
        if (request->op == OP_SET) {
            append_line(client, "$%" PRIu32 "\r\n", bytes);
        }
    } else if (request->op == OP_SET) {
        append_line(client, "set key:%08" PRIx32 " 0 0 %" PRIu32 "\r\n", request->key, bytes);
    } else {
        append_line(client, "%s key:%08" PRIx32 "\r\n", request->op == OP_GET ? "get" : "delete", request->key);
    }
    if (request->op == OP_SET) {
        append(client, value_of(load, request->key, request->version), bytes);
        append(client, "\r\n", 2);
    }
}

static struct request draw(struct load *load, uint32_t index) {
    const struct config *config = &load->config;
    uint32_t own_count = (uint32_t)((config->keys - index + config->clients - 1) / config->clients);
    uint64_t *rng = &load->clients[index].rng;
    uint32_t key = rng_below(rng, own_count) * (uint32_t)config->clients + index;
    uint32_t percent = rng_below(rng, 100);
    enum operation op = percent < config->set_percent                            ? OP_SET
                        : percent < config->set_percent + config->delete_percent ? OP_DELETE
                                                                                 : OP_GET;
    return (struct request){op, key, 0};
}

/* False when this client has no request left in this phase. */
static bool next_request(struct load *load, uint32_t index, struct request *request) {
    struct client *client = &load->clients[index];
    if (load->phase == PHASE_MEASURE) {
        if (client->left == 0) {
            return false;
        }
        client->left--;
        *request = draw(load, index);
    } else {
        if (client->next_key >= load->config.keys) {
            return false;
        }
        static const enum operation ops[] = {[PHASE_STORE] = OP_SET, [PHASE_READ] = OP_GET, [PHASE_DELETE] = OP_DELETE};
        *request = (struct request){ops[load->phase], client->next_key, 0};
        client->next_key += (uint32_t)load->config.clients;
    }
    uint32_t *version = &load->versions[request->key];
    if (request->op == OP_SET) {
        *version = ++load->last_versions[request->key];
    }
    request->version = *version;
    if (request->op == OP_DELETE) {
        *version = 0;
    }
    return true;
}

/* ---- replies ------------------------------------------------------------------------------------- */

static _Noreturn void fail_reply(const struct request *request, const char *line, size_t bytes) {
    static const char *const words[] = {"SET", "GET", "DELETE"};
    machine_fail("%s of key:%08" PRIx32 " (version %" PRIu32 ") was answered with '%.*s'", words[request->op],
                 request->key, request->version, (int)(bytes < LINE_BYTES_MAX ? bytes : LINE_BYTES_MAX), line);
}

static bool line_is(const char *line, size_t bytes, const char *expected) {
    return bytes == strlen(expected) && memcmp(line, expected, bytes) == 0;
}

static void check_value(struct load *load, const struct request *request, const char *value, size_t bytes) {
    uint32_t key = request->key, version = request->version;
    if (version == 0) {
        machine_fail("key:%08" PRIx32 " was deleted, but is still there with %zu bytes", key, bytes);
    }
    if (bytes != value_bytes_of(load, key, version) || memcmp(value, value_of(load, key, version), bytes) != 0) {
        machine_fail("key:%08" PRIx32 " has a different value from the one stored (%zu bytes)", key, bytes);
    }
    load->hits++;
    load->value_bytes += bytes;
}

/* Returns the size of the complete reply at `in`, or 0 while it is incomplete. `line_bytes` is the length of its first
   line without the line end. */
static size_t take_value(struct load *load, const struct request *request, const char *in, size_t in_bytes,
                         size_t line_bytes) {
    bool is_redis = load->config.protocol == PROTOCOL_REDIS;
    const char *end_mark = is_redis ? "\r\n" : "\r\nEND\r\n";
    const char *number = is_redis ? in + 1 : memrchr(in, ' ', line_bytes);
    if (number == NULL) {
        fail_reply(request, in, line_bytes);
    }
    char *number_end;
    unsigned long bytes = strtoul(number, &number_end, 10);
    if (number_end != in + line_bytes || bytes > VALUE_BYTES_MAX) {
        fail_reply(request, in, line_bytes);
    }
    size_t all_bytes = line_bytes + 2 + bytes + strlen(end_mark);
    if (in_bytes < all_bytes) {
        return 0;
    }
    if (memcmp(in + all_bytes - strlen(end_mark), end_mark, strlen(end_mark)) != 0) {
        fail_reply(request, in, line_bytes);
    }
    check_value(load, request, in + line_bytes + 2, bytes);
    return all_bytes;
}

static size_t take_reply(struct load *load, const struct request *request, const char *in, size_t in_bytes) {
    const char *line_end = memmem(in, in_bytes, "\r\n", 2);
    if (line_end == NULL) {
        return 0;
    }
    bool is_redis = load->config.protocol == PROTOCOL_REDIS;
    size_t bytes = (size_t)(line_end - in);
    bool is_stored = request->version != 0;
    if (request->op == OP_SET) {
        if (!line_is(in, bytes, is_redis ? "+OK" : "STORED")) {
            fail_reply(request, in, bytes);
        }
    } else if (request->op == OP_DELETE) {
        const char *expected = is_redis ? (is_stored ? ":1" : ":0") : (is_stored ? "DELETED" : "NOT_FOUND");
        if (!line_is(in, bytes, expected)) {
            fail_reply(request, in, bytes);
        }
    } else if (line_is(in, bytes, is_redis ? "$-1" : "END")) {
        if (is_stored) {
            machine_fail("key:%08" PRIx32 " was stored, but is missing", request->key);
        }
    } else if (strncmp(in, is_redis ? "$" : "VALUE ", is_redis ? 1 : 6) == 0) {
        return take_value(load, request, in, in_bytes, bytes);
    } else {
        fail_reply(request, in, bytes);
    }
    return bytes + 2;
}

static void count_reply(struct load *load, const struct client *client, const struct request *request, uint64_t now) {
    if (load->phase == PHASE_MEASURE) {
        uint64_t ticks = (now - client->sent_ns) * TICKS_PER_US / 1000;
        load->ticks[ticks < TICKS_MAX ? ticks : TICKS_MAX - 1]++;
        load->counts[request->op]++;
    }
    load->answered++;
}

/* ---- the loop ------------------------------------------------------------------------------------ */

static void flush_out(struct load *load, struct client *client) {
    while (client->out_sent < client->out_bytes) {
        ssize_t sent = send(client->fd, client->out + client->out_sent, client->out_bytes - client->out_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            break;
        }
        if (sent < 0 && errno != EINTR) {
            machine_fail("cannot send: %s", strerror(errno));
        }
        client->out_sent += sent > 0 ? (size_t)sent : 0;
    }
    bool must_wait = client->out_sent < client->out_bytes;
    if (must_wait == client->waits_to_send) {
        return;
    }
    client->waits_to_send = must_wait;
    struct epoll_event event = {.events = EPOLLIN | (must_wait ? EPOLLOUT : 0),
                                .data.u32 = (uint32_t)(client - load->clients)};
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, client->fd, &event) != 0) {
        machine_fail("epoll_ctl: %s", strerror(errno));
    }
}

/* Sends the next batch. False: this client has no request left. */
static bool send_batch(struct load *load, uint32_t index) {
    struct client *client = &load->clients[index];
    client->pending_count = client->answered_count = 0;
    client->out_bytes = client->out_sent = 0;
    while (client->pending_count < load->config.pipeline) {
        struct request *request = &client->pending[client->pending_count];
        if (!next_request(load, index, request)) {
            break;
        }
        append_request(load, client, request);
        client->pending_count++;
    }
    if (client->pending_count == 0) {
        return false;
    }
    client->sent_ns = machine_now_ns();
    flush_out(load, client);
    return true;
}

/* Reads what has arrived and checks it. True: all pending requests are answered. */
static bool receive(struct load *load, struct client *client) {
    ssize_t count = recv(client->fd, client->in + client->in_bytes, load->in_capacity - client->in_bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (count <= 0) {
        machine_fail("the server closed the connection%s%s", count < 0 ? ": " : "", count < 0 ? strerror(errno) : "");
    }
    client->in_bytes += (size_t)count;
    uint64_t now = machine_now_ns();
    size_t taken = 0;
    while (client->answered_count < client->pending_count) {
        const struct request *request = &client->pending[client->answered_count];
        size_t bytes = take_reply(load, request, client->in + taken, client->in_bytes - taken);
        if (bytes == 0) {
            break;
        }
        taken += bytes;
        client->answered_count++;
        count_reply(load, client, request, now);
    }
    client->in_bytes -= taken;
    memmove(client->in, client->in + taken, client->in_bytes);
    if (client->answered_count < client->pending_count) {
        if (client->in_bytes == load->in_capacity) {
            machine_fail("a reply of more than %zu bytes", load->in_capacity);
        }
        return false;
    }
    if (client->in_bytes > 0) {
        machine_fail("%zu bytes after the last expected reply", client->in_bytes);
    }
    return true;
}

/* Returns the duration in nanoseconds. */
static uint64_t run_phase(struct load *load, enum phase phase) {
    load->phase = phase;
    load->answered = load->hits = load->value_bytes = 0;
    uint64_t start = machine_now_ns();
    uint32_t busy_count = 0;
    for (uint32_t c = 0; c < load->config.clients; c++) {
        struct client *client = &load->clients[c];
        client->next_key = c;
        client->left =
            load->config.requests / load->config.clients + (c < load->config.requests % load->config.clients);
        busy_count += send_batch(load, c) ? 1 : 0;
    }
    struct epoll_event events[64];
    while (busy_count > 0) {
        int ready = epoll_wait(load->epoll_fd, events, 64, -1);
        if (ready < 0 && errno != EINTR) {
            machine_fail("epoll_wait: %s", strerror(errno));
        }
        for (int e = 0; e < ready; e++) {
            uint32_t index = events[e].data.u32;
            struct client *client = &load->clients[index];
            if (events[e].events & EPOLLOUT) {
                flush_out(load, client);
            }
            if ((events[e].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && receive(load, client)) {
                busy_count -= send_batch(load, index) ? 0 : 1;
            }
        }
    }
    return machine_now_ns() - start;
}

static double percentile_us(const struct load *load, uint64_t total, double share) {
    uint64_t wanted = (uint64_t)((double)total * share), seen = 0;
    uint32_t tick = 0;
    while (tick < TICKS_MAX - 1 && (seen += load->ticks[tick]) <= wanted) {
        tick++;
    }
    return (double)tick / TICKS_PER_US;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        machine_fail("'%s' is too long for a socket; allowed: %zu bytes", path, sizeof address.sun_path - 1);
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        machine_fail("cannot connect to '%s': %s", path, strerror(errno));
    }
    return fd;
}

/* Returns when the server has forked. */
static void start_snapshot(const char *path) {
    static const char request[] = "BGSAVE\r\n", expected[] = "+Background saving started\r\n";
    char reply[LINE_BYTES_MAX];
    size_t got = 0;
    int fd = connect_to(path);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)(sizeof request - 1)) {
        machine_fail("cannot send BGSAVE: %s", strerror(errno));
    }
    while (got == 0 || reply[got - 1] != '\n') {
        ssize_t count = recv(fd, reply + got, sizeof reply - got, 0);
        if (count <= 0) {
            machine_fail("BGSAVE was not answered");
        }
        got += (size_t)count;
    }
    if (got != sizeof expected - 1 || memcmp(reply, expected, got) != 0) {
        machine_fail("BGSAVE was answered with '%.*s'", (int)(got - 1), reply);
    }
    close(fd);
}

static void open_clients(struct load *load) {
    const struct config *config = &load->config;
    size_t request_bytes = config->value_max + 2 * LINE_BYTES_MAX;
    load->in_capacity = load->out_capacity = request_bytes * config->pipeline;
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll_fd < 0) {
        machine_fail("epoll_create1: %s", strerror(errno));
    }
    for (uint32_t c = 0; c < config->clients; c++) {
        struct client *client = &load->clients[c];
        client->pending = machine_map(config->pipeline, sizeof *client->pending);
        client->in = machine_map(load->in_capacity, 1);
        client->out = machine_map(load->out_capacity, 1);
        client->rng = rng_stream(config->seed, c + 1);
        client->fd = connect_to(config->socket_path);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = c};
        if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, client->fd, &event) != 0) {
            machine_fail("epoll_ctl: %s", strerror(errno));
        }
    }
}

static void prepare(struct load *load) {
    const struct config *config = &load->config;
    load->clients = machine_map(config->clients, sizeof *load->clients);
    load->versions = machine_map(config->keys, sizeof *load->versions);
    load->last_versions = machine_map(config->keys, sizeof *load->last_versions);
    load->ticks = machine_map(TICKS_MAX, sizeof *load->ticks);
    load->pattern = machine_map(2 * (size_t)VALUE_BYTES_MAX, 1);
    uint64_t state = rng_stream(config->seed, 0);
    for (size_t at = 0; at < 2 * (size_t)VALUE_BYTES_MAX; at += sizeof state) {
        uint64_t word = rng_next(&state);
        memcpy(load->pattern + at, &word, sizeof word);
    }
    open_clients(load);
}

static struct config parse(int argc, char **argv) {
    struct config config = {
        .clients = 50, .pipeline = 1, .value_min = 16, .value_max = 1024, .set_percent = 50, .seed = 1};
    const struct args_item items[] = {
        ARGS_ROW(ARGS_REQUIRED, "REQUESTS", &config.requests, 1, UINT32_MAX, "requests in the measured phase"),
        ARGS_ROW(ARGS_REQUIRED, "KEYS", &config.keys, 1, 100 * 1000 * 1000, "keys, all stored at the start"),
        ARGS_ROW_CHOICE("protocol", &config.protocol, protocol_words, "protocol of the server"),
        ARGS_ROW(ARGS_NUMBER, "clients", &config.clients, 1, CLIENTS_MAX, "connections"),
        ARGS_ROW(ARGS_NUMBER, "pipeline", &config.pipeline, 1, PIPELINE_MAX, "pending requests per connection"),
        ARGS_ROW(ARGS_NUMBER, "value-min", &config.value_min, 0, VALUE_BYTES_MAX, "bytes of the smallest value"),
        ARGS_ROW(ARGS_NUMBER, "value-max", &config.value_max, 0, VALUE_BYTES_MAX, "bytes of the largest value"),
        ARGS_ROW(ARGS_NUMBER, "set-percent", &config.set_percent, 0, 100, "share of SET"),
        ARGS_ROW(ARGS_NUMBER, "delete-percent", &config.delete_percent, 0, 100, "share of DELETE; the rest is GET"),
        ARGS_ROW_FLAG("delete-all", &config.delete_all, "delete all keys at the end"),
        ARGS_ROW_FLAG("snapshot", &config.snapshot, "redis: BGSAVE at the start of the measured phase"),
        ARGS_ROW(ARGS_NUMBER, "seed", &config.seed, 0, UINT32_MAX, "seed of keys, operations and values"),
    };
    const struct args_spec spec = {"Loads a key-value server over its unix socket and checks its replies.", items,
                                   ARGS_COUNT(items), "SOCKET"};
    int tail = args_parse(&spec, argc, argv);
    if (tail != 1) {
        args_fail(&spec, "%d sockets; allowed: 1", tail);
    }
    config.socket_path = argv[1];
    if (config.snapshot && config.protocol != PROTOCOL_REDIS) {
        args_fail(&spec, "snapshot needs protocol redis");
    }
    args_require_ordered(&spec, "value-min", config.value_min, "value-max", config.value_max);
    if (config.set_percent + config.delete_percent > 100) {
        args_fail(&spec, "set-percent and delete-percent add up to %" PRIu64 "; allowed: 0 to 100",
                  config.set_percent + config.delete_percent);
    }
    if (config.keys < config.clients) {
        args_fail(&spec, "%" PRIu64 " keys for %" PRIu64 " clients; allowed: at least one key for each", config.keys,
                  config.clients);
    }
    return config;
}

int main(int argc, char **argv) {
    machine_stdout_prepare();
    struct load load = {.config = parse(argc, argv)};
    const struct config *config = &load.config;
    prepare(&load);
    run_phase(&load, PHASE_STORE);
    machine_require_equal("stored = keys", load.answered, config->keys);
    if (config->snapshot) {
        start_snapshot(config->socket_path);
    }
    uint64_t ns = run_phase(&load, PHASE_MEASURE);
    machine_require_equal("answered = requests", load.answered, config->requests);
    uint64_t get_hits = load.hits, get_bytes = load.value_bytes, live_count = 0;
    run_phase(&load, PHASE_READ);
    for (uint64_t k = 0; k < config->keys; k++) {
        live_count += load.versions[k] != 0 ? 1 : 0;
    }
    machine_require_equal("read = live", load.hits, live_count);
    uint64_t live_bytes = load.value_bytes;
    if (config->delete_all) {
        run_phase(&load, PHASE_DELETE);
    }
    double seconds = (double)ns / 1e9;
    printf("sets=%" PRIu64 " gets=%" PRIu64 " deletes=%" PRIu64 " hits=%" PRIu64 " hit_bytes=%" PRIu64 " live=%" PRIu64
           " live_bytes=%" PRIu64 "\n",
           load.counts[OP_SET], load.counts[OP_GET], load.counts[OP_DELETE], get_hits, get_bytes, live_count,
           live_bytes);
    printf("result=%" PRIu64 "-%" PRIu64 "-%" PRIu64 "\n", get_hits, live_count, live_bytes);
    printf("p50_us=%.1f p99_us=%.1f p9999_us=%.1f seconds=%.6f requests_per_s=%.0f\n",
           percentile_us(&load, config->requests, 0.50), percentile_us(&load, config->requests, 0.99),
           percentile_us(&load, config->requests, 0.9999), seconds, (double)config->requests / seconds);
    return 0;
}
