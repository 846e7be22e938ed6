/*
 * hakozuna.hpp - hakozuna for C++17: allocators for containers, memory resources, and zones that end with their scope.
 *
 * The library replaces operator new anyway, so containers use it without this header. The header is for a program that
 * links libhakozuna-prefix and keeps its malloc, or that wants what belongs together in a zone of its own.
 *
 * Thread rules, units and errors are those of hakozuna.h, but a failing function throws std::bad_alloc. Compiled
 * without exceptions, it calls std::abort instead.
 */
#ifndef HAKOZUNA_HPP
#define HAKOZUNA_HPP

#include "hakozuna/hakozuna.h"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#endif

namespace hakozuna {

namespace detail {

[[noreturn]] inline void no_memory() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
}

[[noreturn]] inline void no_such_length() {
#if defined(__cpp_exceptions)
    throw std::bad_array_new_length();
#else
    std::abort();
#endif
}

/* From a zone, or, with NULL, from the common heap. */
inline void *take(struct hz_zone *zone, std::size_t bytes, std::size_t alignment) {
    const bool is_plain = alignment <= 16; /* what hz_malloc gives */
    void *block = nullptr;
    if (zone != nullptr)
        block = is_plain ? hz_zone_malloc(zone, bytes) : hz_zone_aligned_alloc(zone, alignment, bytes);
    else
        block = is_plain ? hz_malloc(bytes) : hz_aligned_alloc(alignment, bytes);
    if (block == nullptr)
        no_memory();
    return block;
}

template <class T> T *take_array(struct hz_zone *zone, std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
        no_such_length();
    return static_cast<T *>(take(zone, count * sizeof(T), alignof(T)));
}

} // namespace detail

/* An allocator for containers, over the common heap. It has no state: all are equal. */
template <class T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U> &) noexcept {
    }

    [[nodiscard]] T *allocate(std::size_t count) {
        return detail::take_array<T>(nullptr, count);
    }
    void deallocate(T *block, std::size_t) noexcept {
        hz_free(block);
    }
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
    return true;
}
template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
    return false;
}

/* A zone (hakozuna.h). Its end frees all its blocks at once, and calls no destructors: the containers in it must be
   gone, or of a kind that needs no destructor. */
class zone {
  public:
    zone() : zone_(hz_zone_create()) {
        if (zone_ == nullptr)
            detail::no_memory();
    }
    ~zone() {
        hz_zone_destroy(zone_);
    }
    zone(const zone &) = delete;
    zone &operator=(const zone &) = delete;
    /* The other zone becomes empty: it may only be assigned to, or end. */
    zone(zone &&other) noexcept : zone_(std::exchange(other.zone_, nullptr)) {
    }
    zone &operator=(zone &&other) noexcept {
        std::swap(zone_, other.zone_);
        return *this;
    }

    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
        return detail::take(zone_, bytes, alignment);
    }
    void deallocate(void *block) noexcept {
        hz_free(block);
    }
    [[nodiscard]] hz_zone_stats stats() const noexcept {
        hz_zone_stats out;
        (void)hz_zone_stats_get(zone_, &out, sizeof(out)); /* cannot fail with these */
        return out;
    }
    [[nodiscard]] struct hz_zone *get() const noexcept {
        return zone_;
    }

  private:
    struct hz_zone *zone_;
};

/* An allocator for containers in a zone, which must live longer than they do. Equal if the zone is the same. A
   container that is moved, copied or swapped takes its zone along. */
template <class T> class zone_allocator {
  public:
    using value_type = T;
    using is_always_equal = std::false_type;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    zone_allocator(const zone &from) noexcept : zone_(from.get()) {
    }
    template <class U> zone_allocator(const zone_allocator<U> &other) noexcept : zone_(other.get()) {
    }

    [[nodiscard]] T *allocate(std::size_t count) {
        return detail::take_array<T>(zone_, count);
    }
    void deallocate(T *block, std::size_t) noexcept {
        hz_free(block);
    }
    [[nodiscard]] struct hz_zone *get() const noexcept {
        return zone_;
    }

  private:
    struct hz_zone *zone_;
};

template <class T, class U> bool operator==(const zone_allocator<T> &a, const zone_allocator<U> &b) noexcept {
    return a.get() == b.get();
}
template <class T, class U> bool operator!=(const zone_allocator<T> &a, const zone_allocator<U> &b) noexcept {
    return !(a == b);
}

#if defined(__cpp_lib_memory_resource)

/* A memory resource over the common heap, or over a zone, which must live longer than the resource. Two are equal if a
   block of one may be given back to the other, as the library allows for all of them: but containers should not mix
   zones, so those of different zones are not. */
class memory_resource final : public std::pmr::memory_resource {
  public:
    memory_resource() noexcept = default;
    explicit memory_resource(const zone &from) noexcept : zone_(from.get()) {
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return detail::take(zone_, bytes, alignment);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override {
        hz_free(block);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const auto *ours = dynamic_cast<const memory_resource *>(&other);
        return ours != nullptr && ours->zone_ == zone_;
    }

    struct hz_zone *zone_ = nullptr;
};

#endif

} // namespace hakozuna

#endif /* HAKOZUNA_HPP */
