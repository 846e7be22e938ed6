// deep_shape_host.cc - opens libshape.so with RTLD_DEEPBIND: objects, strings and blocks of all operators pass both
// ways, and exceptions to here. Writes "well". Usage: deep_shape_host LIBRARY [apart]; apart: the library has a C++
// runtime of its own, so no exception passes.
#include "deep_shape.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace {

[[noreturn]] void fail(const char *what) {
    std::printf("%s\n", what);
    std::exit(1);
}

void pass(const Form *from, const Form *to) {
    for (std::size_t i = 0; i < sizeof kForms / sizeof *kForms; i++)
        for (std::size_t size = 1; size < 5000000; size = size * 5 / 3 + 1) {
            void *block = from[i].make(size);
            std::memset(block, 1, size);
            to[i].drop(block, size);
        }
}

bool throws_refused(const Exports &library) {
    try {
        library.refuse("a reason that does not fit into the string object itself");
    } catch (const Refused &refused) {
        return std::strstr(refused.what(), "a reason") != nullptr;
    }
    return false;
}

bool throws_bad_alloc(const Exports &library) {
    try {
        library.use_up();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

} // namespace

int main(int argc, char **argv) {
    void *handle = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : nullptr;
    auto *library = handle != nullptr ? static_cast<const Exports *>(dlsym(handle, "deep_exports")) : nullptr;
    if (library == nullptr)
        fail(dlerror());
    pass(kForms, library->forms);
    pass(library->forms, kForms);
    for (int i = 0; i < 1000; i++) {
        Shape *theirs = library->make();
        if (dynamic_cast<Round *>(theirs) == nullptr || theirs->name().find("round") == std::string::npos)
            fail("not a round shape");
        delete theirs;
        library->drop(new Round);
    }
    std::vector<std::string> texts;
    for (int i = 0; i < 1000; i++)
        library->append(texts, "a text");
    if (argc == 2 && (!throws_refused(*library) || !throws_bad_alloc(*library)))
        fail("no exception");
    std::puts("well");
    return 0;
}
