/*
 * pipeline - three threads hand records to each other: a reader makes lines of text, a parser splits each into words
 * and frees the line, a counter counts the words and frees them. So almost every block is freed by another thread than
 * the one that allocated it. RECORDS lines pass, at most PER_SECOND in a second if that is given. Prints figures that
 * follow from RECORDS.
 */
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::uint64_t records_max = 1'000'000'000'000;
constexpr std::uint64_t rate_max = 1'000'000'000;
constexpr std::size_t queue_most = 1024;
constexpr unsigned words_most = 16;
constexpr std::uint64_t vocabulary = 20'000;

using line = std::string;
using words = std::vector<std::string>;

/* A bounded queue of owned messages. An empty message is the last one. */
template <typename message> class queue {
  public:
    void put(std::unique_ptr<message> item) {
        std::unique_lock hold(lock_);
        changed_.wait(hold, [this] { return items_.size() < queue_most; });
        items_.push_back(std::move(item));
        changed_.notify_all();
    }
    std::unique_ptr<message> get() {
        std::unique_lock hold(lock_);
        changed_.wait(hold, [this] { return !items_.empty(); });
        std::unique_ptr<message> item = std::move(items_.front());
        items_.pop_front();
        changed_.notify_all();
        return item;
    }

  private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<message>> items_;
};

/* splitmix64 */
std::uint64_t draw(std::uint64_t &state) {
    std::uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void read_lines(std::uint64_t records, std::uint64_t per_second, queue<line> &out) {
    auto begin = std::chrono::steady_clock::now();
    std::uint64_t state = 1;
    for (std::uint64_t n = 0; n < records; n++) {
        auto text = std::make_unique<line>();
        for (std::uint64_t left = 1 + draw(state) % words_most; left > 0; left--) {
            std::uint64_t word = draw(state) % vocabulary;
            *text += "word" + std::string(word % 40, 'x') + std::to_string(word) + ' ';
        }
        out.put(std::move(text));
        if (per_second > 0)
            std::this_thread::sleep_until(begin + std::chrono::nanoseconds(1'000'000'000 / per_second) * (n + 1));
    }
    out.put(nullptr);
}

void split_lines(queue<line> &in, queue<words> &out) {
    while (std::unique_ptr<line> text = in.get()) {
        auto parts = std::make_unique<words>();
        std::size_t begin = 0;
        for (std::size_t end; (end = text->find(' ', begin)) != line::npos; begin = end + 1)
            parts->push_back(text->substr(begin, end - begin));
        out.put(std::move(parts));
    }
    out.put(nullptr);
}

std::uint64_t number(const char *text, std::uint64_t most) {
    char *end = nullptr;
    errno = 0;
    std::uint64_t value = std::strtoull(text, &end, 10);
    bool is_digit = *text >= '0' && *text <= '9';
    return is_digit && *end == '\0' && errno == 0 && value <= most ? value : 0;
}

} // namespace

int main(int argc, char **argv) {
    std::uint64_t records = argc > 1 ? number(argv[1], records_max) : 0;
    std::uint64_t per_second = argc > 2 ? number(argv[2], rate_max) : 0;
    if (argc < 2 || argc > 3 || records == 0 || (argc == 3 && per_second == 0)) {
        std::fprintf(
            stderr, "pipeline: allowed: RECORDS, 1 to %" PRIu64 ", and then PER_SECOND, 1 to %" PRIu64 ", or nothing\n",
            records_max, rate_max);
        return 2;
    }
    queue<line> lines;
    queue<words> split;
    std::unordered_map<std::string, std::uint64_t> counts;
    std::uint64_t total = 0;
    std::thread reader([&] { read_lines(records, per_second, lines); });
    std::thread parser([&] { split_lines(lines, split); });
    while (std::unique_ptr<words> parts = split.get()) {
        total += parts->size();
        for (const std::string &word : *parts)
            counts[word]++;
    }
    reader.join();
    parser.join();
    std::printf("words=%" PRIu64 " distinct=%zu\n", total, counts.size());
    return 0;
}
