/*
 * unwinding.cc - throws exceptions after it has registered the unwind tables of generated code, as JIT compilers do.
 * The unwinder sorts such tables at the first exception, and allocates for that while it holds its lock.
 */
#include <cstdio>
#include <cstring>
#include <vector>

extern "C" void __register_frame(void *tables);
extern "C" void __deregister_frame(void *tables);

namespace {

constexpr int functions = 1000;
constexpr int rounds = 20;
char code[functions * 64];

using Tables = std::vector<unsigned char>;

void put(Tables &tables, unsigned long value, int bytes) {
    for (int i = 0; i < bytes; i++)
        tables.push_back(static_cast<unsigned char>(value >> 8 * i));
}

/* Fills up the record, and stores its length in front of it. */
void end_record(Tables &tables, size_t begin) {
    while ((tables.size() - begin - 4) % 8 != 0)
        tables.push_back(0); /* DW_CFA_nop */
    auto length = static_cast<unsigned>(tables.size() - begin - 4);
    memcpy(&tables[begin], &length, sizeof(length));
}

/* .eh_frame of some functions that are never called. */
Tables make_tables() {
    Tables tables;
    put(tables, 0, 8);                                                       /* length, and 0 for a CIE */
    for (unsigned byte : {1U, 0U, 1U, 0x78U, 16U, 0x0cU, 7U, 8U, 0x90U, 1U}) /* version 1, no augmentation, x86-64's */
        put(tables, byte, 1);
    end_record(tables, 0);
    for (int i = 0; i < functions; i++) {
        size_t begin = tables.size();
        put(tables, 0, 4);
        put(tables, tables.size(), 4); /* back to the CIE */
        put(tables, reinterpret_cast<unsigned long>(code + 64 * i), 8);
        put(tables, 64, 8);
        end_record(tables, begin);
    }
    put(tables, 0, 4);
    return tables;
}

} // namespace

int main() {
    int caught = 0;
    for (int round = 0; round < rounds; round++) {
        Tables tables = make_tables();
        __register_frame(tables.data());
        try {
            throw round;
        } catch (int) {
            caught++;
        }
        __deregister_frame(tables.data());
    }
    printf("%d\n", caught);
}
