/*
 * replaces.cc - replaces the first operator new and the first operator delete, with a header before each block, and
 * uses all other forms. Ends with 0 if each called the program's own; with the archive, links at all.
 */
#include <cstdlib>
#include <new>

static int news, deletes;

static const size_t header = 16;

void *operator new(size_t size) {
    char *base = static_cast<char *>(malloc(size + header));
    if (base == nullptr)
        throw std::bad_alloc();
    news++;
    return base + header;
}

void operator delete(void *block) noexcept {
    if (block == nullptr)
        return;
    deletes++;
    free(static_cast<char *>(block) - header);
}

struct Part {
    long values[10];
    ~Part() {
        values[0] = 0;
    }
};

template <typename T> static T *kept(T *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

int main() {
    delete kept(new Part);
    delete[] kept(new Part[3]);
    delete kept(new (std::nothrow) Part);
    delete[] kept(new (std::nothrow) Part[3]);
    void *plain = malloc(100);
    void *bigger = realloc(plain, 10000);
    free(bigger);
    return news == 4 && deletes == 4 && bigger != nullptr ? 0 : 1;
}
