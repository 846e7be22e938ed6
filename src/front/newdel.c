/*
 * newdel.c - see newdel.h. C programs must not load libstdc++ because of us, so nothing of it is linked. Its functions
 * are looked up when they are needed. Only a C++ program needs them, and such a program has libstdc++ loaded.
 */
#include "front/newdel.h"

#include "base/os/atomic.h"
#include "base/process/symbols.h"
#include "front/family.h"

#include <stdlib.h>

typedef void (*new_handler)(void);
typedef new_handler (*get_new_handler_function)(void);
typedef void (*throw_function)(void);
typedef void *(*nothrow_new_function)(size_t size, const void *tag);
typedef void *(*nothrow_new_aligned_function)(size_t size, size_t alignment, const void *tag);

/* A function of the loaded libstdc++ (or libc++), even if the program has loaded that library with RTLD_LOCAL only. It
   stays loaded: code of the program that is linked with it is calling operator new. 0 if there is none. */
static uintptr_t library_function(const char *name) {
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
    uintptr_t function = 0;
    for (size_t i = 0; function == 0 && i < HZ_ARRAY_LENGTH(libraries); i++)
        function = hz_symbols_find(libraries[i], name);
    return function;
}

/* As above, for functions that we do not define. Also finds them in a statically linked runtime. */
static uintptr_t runtime_function(const char *name) {
    uintptr_t function = library_function(name);
    return function != 0 ? function : hz_symbols_find(NULL, name);
}

static new_handler current_new_handler(void) {
    get_new_handler_function get = (get_new_handler_function)runtime_function("_ZSt15get_new_handlerv");
    return get != NULL ? get() : NULL;
}

static HZ_NORETURN void throw_bad_alloc(void) {
    throw_function throw_it = (throw_function)runtime_function("_ZSt17__throw_bad_allocv");
    if (throw_it != NULL)
        throw_it();
    abort(); /* no C++ runtime: operator new was called from C by its mangled name */
}

/* A nothrow new must catch what the throwing new or the new_handler throws, and C cannot catch. The runtime's own
   nothrow new can: it calls the throwing new, ours or the program's, inside a try block. */
bool hz_front_new_caught(enum hz_new_form form, size_t size, size_t alignment, void **block) {
    static const char *const names[] = {
        [HZ_NEW] = "_ZnwmRKSt9nothrow_t",
        [HZ_NEW_ARRAY] = "_ZnamRKSt9nothrow_t",
        [HZ_NEW_ALIGNED] = "_ZnwmSt11align_val_tRKSt9nothrow_t",
        [HZ_NEW_ARRAY_ALIGNED] = "_ZnamSt11align_val_tRKSt9nothrow_t",
    };
    enum { NOT_THERE = 1 };
    static _Atomic(uintptr_t) found[HZ_ARRAY_LENGTH(names)]; /* hint: every search has the same result */
    uintptr_t function = hz_load_rlx(&found[form]);          /* relaxed: hint */
    if (function == 0) {
        function = library_function(names[form]);
        function = function == 0 ? NOT_THERE : function;
        hz_store_rlx(&found[form], function); /* relaxed: hint */
    }
    if (function == NOT_THERE)
        return false;
    static const char tag;
    if (form == HZ_NEW_ALIGNED || form == HZ_NEW_ARRAY_ALIGNED)
        *block = ((nothrow_new_aligned_function)function)(size, alignment, &tag);
    else
        *block = ((nothrow_new_function)function)(size, &tag);
    return true;
}

void *hz_front_new_slow(size_t size, size_t alignment, bool nothrow) {
    void *caught = NULL;
    enum hz_new_form form = alignment > HZ_GRANULE_BYTES ? HZ_NEW_ALIGNED : HZ_NEW;
    if (nothrow && hz_front_new_caught(form, size, alignment, &caught))
        return caught;
    for (;;) {
        new_handler handler = current_new_handler();
        if (handler == NULL && nothrow)
            return NULL;
        if (handler == NULL)
            throw_bad_alloc();
        handler(); /* frees memory, throws, or ends the program. C frames unwind: compiled with -fexceptions */
        void *block = hz_front_aligned_alloc(alignment, size);
        if (block != NULL)
            return block;
    }
}
