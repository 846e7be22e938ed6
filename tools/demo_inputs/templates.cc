/*
 * templates.cc - a source that keeps a C++ compiler busy: large standard headers and many instantiations.
 * Only compiled, never linked; the object file must be the same whatever allocator the compiler uses.
 */
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

template <int N> struct key {
    int value = N;
    bool operator<(const key &other) const {
        return value < other.value;
    }
};

/* Instantiates one map, one set and one sort per N, to give the compiler work. */
template <int N> std::string describe() {
    std::map<key<N>, std::vector<std::tuple<int, std::string>>> table;
    std::set<std::pair<key<N>, int>> seen;
    for (int i = 0; i < N; i++) {
        table[key<N>{i % 7}].emplace_back(i, std::to_string(i));
        seen.insert({key<N>{i}, i});
    }
    std::ostringstream out;
    for (auto &[k, list] : table) {
        std::sort(list.begin(), list.end(),
                  [](const auto &a, const auto &b) { return std::get<1>(a) < std::get<1>(b); });
        out << k.value << ':' << list.size() << ' ';
    }
    std::variant<int, std::string, key<N>> last = out.str();
    return std::visit(
        [](const auto &value) -> std::string {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
                return value;
            }
            return {};
        },
        last);
}

template <int... N> std::vector<std::function<std::string()>> all(std::integer_sequence<int, N...>) {
    return {std::function<std::string()>(&describe<N + 1>)...};
}

} // namespace

std::string describe_all(const std::string &pattern) {
    const std::regex wanted(pattern, std::regex::ECMAScript | std::regex::optimize);
    std::unordered_map<std::string, std::shared_ptr<std::string>> results;
    for (const auto &function : all(std::make_integer_sequence<int, 6>())) {
        auto text = std::make_shared<std::string>(function());
        if (std::regex_search(*text, wanted)) {
            results.emplace(*text, text);
        }
    }
    std::string joined;
    for (const auto &[name, text] : results) {
        joined += name + *text;
    }
    return joined;
}
