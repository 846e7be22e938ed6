/* deep_shape.h - what deep_shape.cc, a C++ library opened with RTLD_DEEPBIND, and its program have in common. */
#ifndef HZ_TESTS_PRELOAD_PROGRAMS_DEEP_SHAPE_H
#define HZ_TESTS_PRELOAD_PROGRAMS_DEEP_SHAPE_H

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual std::string name() const = 0;
};

struct Round : Shape {
    std::string name() const override {
        return "a round shape whose name does not fit into the string object itself";
    }
    std::vector<int> points = std::vector<int>(1000, 7);
};

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct alignas(256) Wide {
    char bytes[512];
};

/* One operator new and the delete that belongs to it. */
struct Form {
    void *(*make)(std::size_t);
    void (*drop)(void *, std::size_t);
};

constexpr std::align_val_t kWide{256};

static const Form kForms[] = {
    {[](std::size_t size) { return ::operator new(size); }, [](void *block, std::size_t) { ::operator delete(block); }},
    {[](std::size_t size) { return ::operator new[](size); },
     [](void *block, std::size_t) { ::operator delete[](block); }},
    {[](std::size_t size) { return ::operator new(size); },
     [](void *block, std::size_t size) { ::operator delete(block, size); }},
    {[](std::size_t size) { return ::operator new[](size); },
     [](void *block, std::size_t size) { ::operator delete[](block, size); }},
    {[](std::size_t size) { return ::operator new(size, std::nothrow); },
     [](void *block, std::size_t) { ::operator delete(block, std::nothrow); }},
    {[](std::size_t size) { return ::operator new[](size, std::nothrow); },
     [](void *block, std::size_t) { ::operator delete[](block, std::nothrow); }},
    {[](std::size_t size) { return ::operator new(size, kWide); },
     [](void *block, std::size_t) { ::operator delete(block, kWide); }},
    {[](std::size_t size) { return ::operator new[](size, kWide); },
     [](void *block, std::size_t size) { ::operator delete[](block, size, kWide); }},
    {[](std::size_t size) { return ::operator new(size, kWide, std::nothrow); },
     [](void *block, std::size_t size) { ::operator delete(block, size, kWide); }},
};

/* What the library exports under the name deep_exports. */
struct Exports {
    const Form *forms;
    Shape *(*make)();
    void (*drop)(Shape *);
    void (*refuse)(const std::string &why);
    void (*append)(std::vector<std::string> &to, const std::string &text);
    void (*use_up)(); /* throws std::bad_alloc */
};

#endif
