// Threads that take strings from a queue, and containers of strings: the program that g++, clang and cmake build and
// run.
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

class Queue {
  public:
    void put(std::unique_ptr<std::string> text) {
        std::lock_guard<std::mutex> lock(mutex_);
        texts_.push_back(std::move(text));
        changed_.notify_one();
    }

    std::unique_ptr<std::string> take() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !texts_.empty(); });
        auto text = std::move(texts_.front());
        texts_.pop_front();
        return text;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<std::string>> texts_;
};

unsigned long take_all(Queue &queue) {
    std::map<std::string, unsigned long> counts;
    while (auto text = queue.take())
        counts[*text] += text->size();
    return std::accumulate(counts.begin(), counts.end(), 0UL, [](unsigned long sum, const auto &pair) {
        return sum + pair.first.size() * 31 + pair.second;
    });
}

} // namespace

int main() {
    constexpr unsigned texts = 200000;
    Queue queue;
    std::vector<unsigned long> sums(4);
    std::vector<std::thread> takers;
    for (auto &sum : sums)
        takers.emplace_back([&sum, &queue] { sum = take_all(queue); });
    for (unsigned i = 0; i < texts; i++)
        queue.put(std::make_unique<std::string>(std::to_string(i) + std::string(i % 500, 'x')));
    for (size_t i = 0; i < takers.size(); i++)
        queue.put(nullptr);
    for (auto &taker : takers)
        taker.join();
    std::printf("%lu\n", std::accumulate(sums.begin(), sums.end(), 0UL));
    return 0;
}
