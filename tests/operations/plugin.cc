/*
 * plugin.cc - a library that uses malloc and new in all the ways that libraries do: in constructors, destructors,
 * thread-local storage (which the dynamic linker allocates) and in a function.
 */
#include "operations/plugin.h"

#include "contract/support.h"

#include <string>

namespace {

/* Before the constructor of the library ends, and after its users have gone. */
class Whole_life {
  public:
    Whole_life() {
        for (size_t i = 0; i < count; i++) {
            blocks_[i] = malloc(size_of(i));
            if (blocks_[i] != nullptr)
                support::fill(blocks_[i], size_of(i), i);
        }
    }
    ~Whole_life() {
        if (!intact())
            abort();
        for (void *block : blocks_)
            free(block);
    }
    Whole_life(const Whole_life &) = delete;
    Whole_life &operator=(const Whole_life &) = delete;

    bool intact() const {
        for (size_t i = 0; i < count; i++)
            if (blocks_[i] != nullptr && !support::holds(blocks_[i], size_of(i), i))
                return false;
        return true;
    }

  private:
    static constexpr size_t count = 30;
    static size_t size_of(size_t index) {
        return 24 + index * index * 40;
    }
    void *blocks_[count];
};

Whole_life whole_life;
thread_local char local[6000];

} // namespace

int plugin_use(size_t seed) {
    support::fill(local, sizeof local, seed);
    std::string text(10 + seed % 5000, 'x');
    void *block = malloc(seed);
    if (block != nullptr)
        support::fill(block, seed, seed);
    bool good = whole_life.intact() && support::holds(local, sizeof local, seed) &&
                (block == nullptr || support::holds(block, seed, seed)) && text.find_first_not_of('x') == text.npos;
    free(block);
    return good ? 0 : 1;
}
