// ours.cc - as ours.c, for the operators of C++.
#include <hakozuna/hakozuna.h>

#include <cstdio>
#include <new>
#include <string>
#include <vector>

int main(int argc, char **argv) {
    std::vector<std::string> words(argv, argv + argc);
    words.push_back(std::string(1000, 'x'));
    int *number = new int(argc);
    double *numbers = new (std::nothrow) double[100];
    if (numbers == nullptr)
        return 1;
    hz_free(number); // a block of operator new is a block of malloc
    delete[] numbers;
    std::puts(hz_config_string());
    return words.back().size() == 1000 ? 0 : 1;
}
