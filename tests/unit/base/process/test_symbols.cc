/* Functions of other libraries, found in their symbol tables: the results are those of dlsym. */
#include "unit/base/fixture.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

namespace {

uintptr_t by_linker(void *handle, const char *name) {
    return reinterpret_cast<uintptr_t>(dlsym(handle, name));
}

TEST(Symbols, TheNextDefinitionIsThatOfDlsym) {
    EXPECT_EQ(hz_symbols_next(HZ_SYMBOL_DLOPEN), by_linker(RTLD_NEXT, "dlopen"));
    EXPECT_EQ(hz_symbols_next(HZ_SYMBOL_DLMOPEN), by_linker(RTLD_NEXT, "dlmopen"));
    EXPECT_EQ(hz_symbols_next(HZ_SYMBOL_PRCTL), by_linker(RTLD_NEXT, "prctl"));
    EXPECT_EQ(hz_symbols_next(HZ_SYMBOL_PTHREAD_CREATE), by_linker(RTLD_NEXT, "pthread_create"));
    EXPECT_EQ(hz_symbols_next(HZ_SYMBOL_THRD_CREATE), by_linker(RTLD_NEXT, "thrd_create"));
    EXPECT_NE(hz_symbols_next(HZ_SYMBOL_DLOPEN), 0u);
    EXPECT_NE(hz_symbols_next(HZ_SYMBOL_PTHREAD_CREATE), 0u);
}

TEST(Symbols, FindsFunctionsOfALibraryByItsSoname) {
    for (const char *name : {"_ZSt15get_new_handlerv", "_ZSt17__throw_bad_allocv", "_Znwm", "_ZdlPv"}) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        ASSERT_NE(library, nullptr);
        EXPECT_EQ(hz_symbols_find("libstdc++.so.6", name), by_linker(library, name)) << name;
        EXPECT_EQ(hz_symbols_find("libc.so.6", name), 0u) << name;
        dlclose(library);
    }
    EXPECT_EQ(hz_symbols_find("libnone.so.1", "_Znwm"), 0u);
}

TEST(Symbols, FindsEveryFunctionThatALibraryHas) {
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    for (const char *name :
         {"malloc", "free", "getenv", "fopen", "qsort", "pthread_join", "regexec", "socket", "strtol"})
        EXPECT_EQ(hz_symbols_find("libc.so.6", name), by_linker(library, name)) << name;
    for (const char *name : {"mallo", "mallocc", "", "no_such_function", "environ"}) // the last one is a variable
        EXPECT_EQ(hz_symbols_find("libc.so.6", name), 0u) << name;
    dlclose(library);
}

TEST(Symbols, WithoutASonameAnyLibraryCounts) {
    EXPECT_EQ(hz_symbols_find(nullptr, "qsort"), by_linker(RTLD_DEFAULT, "qsort"));
    EXPECT_EQ(hz_symbols_find(nullptr, "no_such_function"), 0u);
}

TEST(Symbols, TheProgramsErrorOfTheLinkerStays) {
    EXPECT_EQ(dlopen("/no/such/library.so", RTLD_NOW), nullptr);
    hz_symbols_load();
    EXPECT_EQ(hz_symbols_find(nullptr, "no_such_function"), 0u);
    const char *error = dlerror();
    ASSERT_NE(error, nullptr);
    EXPECT_NE(std::string(error).find("/no/such/library.so"), std::string::npos) << error;
    EXPECT_EQ(hz_symbols_find(nullptr, "no_such_function"), 0u);
    EXPECT_EQ(dlerror(), nullptr);
}

} // namespace
