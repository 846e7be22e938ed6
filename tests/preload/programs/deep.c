/*
 * deep.c - a library that deep_host.c opens with RTLD_DEEPBIND. The program has a function and a variable of the same
 * names. VERSION: what this library's own have.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

int deep_version(void);
int deep_asks_version(void);
int deep_asks_value(void);
int deep_opens(const char *library);
void *deep_block(unsigned way, size_t size);
size_t deep_frees(void *block);
void *deep_finds(const char *name);

int deep_value = 10 * VERSION;

int deep_version(void) {
    return VERSION;
}

int deep_asks_version(void) {
    return deep_version();
}

int deep_asks_value(void) {
    return deep_value;
}

/* The version that another library, opened by this one, finds. */
int deep_opens(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    return handle != NULL ? ((int (*)(void))dlsym(handle, "deep_asks_version"))() : 0;
}

static char *line_of(const char *text) {
    char *line = NULL;
    size_t room = 0;
    FILE *file = fmemopen((void *)(size_t)text, strlen(text), "r");
    if (getline(&line, &room, file) < 0)
        abort();
    fclose(file);
    return line;
}

static char *stream_of(size_t size) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    for (size_t i = 0; i < size; i++)
        fputc('x', file);
    fclose(file);
    return text;
}

static void *entry_of(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 1; i < count; i++)
        free(entries[i]);
    struct dirent *first = count > 0 ? entries[0] : NULL;
    free(entries);
    return first;
}

/* A block from each function of the C library that returns one; NULL when there is no such way. */
void *deep_block(unsigned way, size_t size) {
    void *block = NULL;
    char *text = NULL;
    switch (way) {
    case 0:
        return malloc(size);
    case 1:
        return calloc(3, size);
    case 2:
        return realloc(malloc(size / 2), size);
    case 3:
        return reallocarray(NULL, 2, size);
    case 4:
        return posix_memalign(&block, 64, size) == 0 ? block : NULL;
    case 5:
        return aligned_alloc(128, size);
    case 6:
        return memalign(256, size);
    case 7:
        return valloc(size);
    case 8:
        return pvalloc(size);
    case 9:
        return strdup("a string");
    case 10:
        return strndup("a string", 3);
    case 11:
        return asprintf(&text, "%zu and more", size) > 0 ? text : NULL;
    case 12:
        return line_of("a line\nanother\n");
    case 13:
        return stream_of(size);
    case 14:
        return realpath("/proc/self/..", NULL);
    case 15:
        return getcwd(NULL, 0);
    case 16:
        return wcsdup(L"a wide string");
    case 17:
        return entry_of("/");
    case 18:
        return get_current_dir_name();
    default:
        return NULL;
    }
}

/* The usable size of the block. */
size_t deep_frees(void *block) {
    size_t bytes = malloc_usable_size(block);
    free(block);
    return bytes;
}

/* What the library finds under a name, first of all in its own dependencies. */
void *deep_finds(const char *name) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *found = dlsym(libc, name);
    if (found == NULL) /* for programs of long ago only */
        found = dlvsym(libc, name, "GLIBC_2.2.5");
    dlclose(libc);
    return found;
}

__attribute__((constructor)) static void begin(void) {
    free(strdup("the C library's own call of malloc"));
}
