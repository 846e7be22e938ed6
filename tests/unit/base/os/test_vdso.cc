/* The search for a function in an ELF image: the kernel's own, and images with each kind of hash table. */
extern "C" {
#include "base/os/vdso.h"
}

#include <cstring>
#include <ctime>
#include <elf.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/auxv.h>
#include <vector>

namespace {

enum Hash { NO_HASH, SYSV_HASH, GNU_HASH };

constexpr uint64_t load_address = 0x7000; /* what the image's own addresses count from */

/* Lays an image out: header, program headers, dynamic section, symbols, strings, hash table. */
class Image {
  public:
    explicit Image(Hash hash) {
        header_ = place<Elf64_Ehdr>(1);
        programs_ = place<Elf64_Phdr>(2);
        dynamic_ = place<Elf64_Dyn>(4);
        symbols_ = place<Elf64_Sym>(5);
        strings_ = bytes_.size();
        bytes_.push_back('\0');
        symbol(1, "first", STT_FUNC, 1, 0x10);
        symbol(2, "wanted_elsewhere", STT_FUNC, SHN_UNDEF, 0x20);
        symbol(3, "data", STT_OBJECT, 1, 0x30);
        symbol(4, "last", STT_FUNC, 1, 0x40);
        bytes_.resize((bytes_.size() + 7) & ~size_t{7});
        size_t table = bytes_.size();
        if (hash == SYSV_HASH)
            words({1, 5, 1, 0, 2, 3, 4, 0}); /* buckets, chains; the bucket, the chains */
        else if (hash == GNU_HASH)
            words({2, 1, 1, 0, 0, 0, 1, 3, 0x1000, 0x2001, 0x3000, 0x4001}); /* buckets, offset, bloom; the tables */
        dynamic(0, DT_SYMTAB, symbols_);
        dynamic(1, DT_STRTAB, strings_);
        if (hash != NO_HASH)
            dynamic(2, hash == SYSV_HASH ? DT_HASH : DT_GNU_HASH, table);
        finish();
    }

    /* Where the function lies in the image that was searched; -1: not found. */
    int64_t find(const char *name) const {
        uintptr_t found = hz_vdso_find(bytes_.data(), name);
        return found == 0 ? -1 : static_cast<int64_t>(found - reinterpret_cast<uintptr_t>(bytes_.data()));
    }

    void break_mark() {
        bytes_[1] = 'F';
    }
    void be_32_bit() {
        bytes_[EI_CLASS] = ELFCLASS32;
    }
    void lose_dynamic() {
        at<Elf64_Phdr>(programs_, 1)->p_type = PT_NOTE;
    }

  private:
    template <class T> size_t place(size_t count) {
        size_t start = bytes_.size();
        bytes_.resize(start + count * sizeof(T));
        return start;
    }
    template <class T> T *at(size_t start, size_t index) {
        return reinterpret_cast<T *>(bytes_.data() + start) + index;
    }
    void symbol(size_t index, const char *name, unsigned char type, uint16_t section, uint64_t offset) {
        Elf64_Sym *symbol = at<Elf64_Sym>(symbols_, index);
        symbol->st_name = static_cast<uint32_t>(bytes_.size() - strings_);
        symbol->st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
        symbol->st_shndx = section;
        symbol->st_value = load_address + offset;
        bytes_.insert(bytes_.end(), name, name + strlen(name) + 1);
    }
    void words(const std::vector<uint32_t> &values) {
        const char *start = reinterpret_cast<const char *>(values.data());
        bytes_.insert(bytes_.end(), start, start + values.size() * sizeof(uint32_t));
    }
    void dynamic(size_t index, int64_t tag, size_t where) {
        at<Elf64_Dyn>(dynamic_, index)->d_tag = tag;
        at<Elf64_Dyn>(dynamic_, index)->d_un.d_ptr = load_address + where;
    }
    void finish() {
        Elf64_Ehdr *header = at<Elf64_Ehdr>(header_, 0);
        memcpy(header->e_ident, ELFMAG, SELFMAG);
        header->e_ident[EI_CLASS] = ELFCLASS64;
        header->e_phoff = programs_;
        header->e_phentsize = sizeof(Elf64_Phdr);
        header->e_phnum = 2;
        at<Elf64_Phdr>(programs_, 0)->p_type = PT_LOAD;
        at<Elf64_Phdr>(programs_, 0)->p_vaddr = load_address;
        at<Elf64_Phdr>(programs_, 1)->p_type = PT_DYNAMIC;
        at<Elf64_Phdr>(programs_, 1)->p_offset = dynamic_;
        at<Elf64_Phdr>(programs_, 1)->p_vaddr = load_address + dynamic_;
    }

    std::vector<char> bytes_;
    size_t header_, programs_, dynamic_, symbols_, strings_;
};

TEST(Vdso, EachHashTableSaysHowManySymbolsThereAre) {
    for (Hash hash : {SYSV_HASH, GNU_HASH}) {
        Image image(hash);
        EXPECT_EQ(image.find("first"), 0x10) << hash;
        EXPECT_EQ(image.find("last"), 0x40) << hash;
    }
}

TEST(Vdso, OnlyFunctionsThatTheImageDefinesAreFound) {
    Image image(SYSV_HASH);
    EXPECT_EQ(image.find("wanted_elsewhere"), -1);
    EXPECT_EQ(image.find("data"), -1);
    EXPECT_EQ(image.find("firs"), -1);
    EXPECT_EQ(image.find(""), -1);
}

TEST(Vdso, WhatIsNoImageHasNoFunctions) {
    EXPECT_EQ(hz_vdso_find(nullptr, "first"), 0u);
    EXPECT_EQ(Image(NO_HASH).find("first"), -1);
    Image no_elf(SYSV_HASH), narrow(SYSV_HASH), not_dynamic(SYSV_HASH);
    no_elf.break_mark();
    narrow.be_32_bit();
    not_dynamic.lose_dynamic();
    for (const Image *image : {&no_elf, &narrow, &not_dynamic})
        EXPECT_EQ(image->find("first"), -1);
}

TEST(Vdso, TheKernelsImageHasAClock) {
    auto *image = reinterpret_cast<const void *>(getauxval(AT_SYSINFO_EHDR));
    if (image == nullptr)
        GTEST_SKIP() << "this kernel has no vDSO";
    uintptr_t found = hz_vdso_find(image, "__vdso_clock_gettime");
    if (found == 0)
        found = hz_vdso_find(image, "__kernel_clock_gettime");
    ASSERT_NE(found, 0u);
    auto *clock = reinterpret_cast<int (*)(clockid_t, struct timespec *)>(found);
    struct timespec before = {}, now = {}, after = {};
    ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    ASSERT_EQ(clock(CLOCK_MONOTONIC, &now), 0);
    ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    auto ns = [](const struct timespec &time) { return time.tv_sec * INT64_C(1000000000) + time.tv_nsec; };
    EXPECT_LE(ns(before), ns(now));
    EXPECT_LE(ns(now), ns(after));
    EXPECT_EQ(hz_vdso_find(image, "__vdso_no_such_function"), 0u);
}

} // namespace
