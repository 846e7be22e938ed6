// deep_shape.cc - see deep_shape.h.
#include "deep_shape.h"

#include <cstdint>

namespace {

Shape *make() {
    return new Round;
}

void drop(Shape *shape) {
    delete shape;
}

void refuse(const std::string &why) {
    throw Refused(why);
}

void append(std::vector<std::string> &to, const std::string &text) {
    to.push_back(text + " and so on, until it does not fit into the string object itself");
}

void use_up() {
    ::operator delete(::operator new(PTRDIFF_MAX - 4096));
}

} // namespace

extern "C" const Exports deep_exports;
extern "C" const Exports deep_exports = {kForms, make, drop, refuse, append, use_up};
