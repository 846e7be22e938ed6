/* large.cc - work for a C++ compiler: many instantiations of the heavier parts of the standard library. */
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int n> struct Record {
    std::string name = "record" + std::to_string(n);
    std::map<std::string, std::vector<std::variant<int, double, std::string>>> fields;
    std::unordered_map<int, std::tuple<std::string, int, std::shared_ptr<Record>>> links;
    std::function<int(const Record &)> weigh = [](const Record &other) {
        return static_cast<int>(other.fields.size()) + n;
    };

    int run(int seed) {
        std::mt19937 random(static_cast<unsigned>(seed + n));
        for (int i = 0; i < n + 3; i++) {
            fields[name + std::to_string(random() % 7)].push_back(std::to_string(i));
            links[i] = {name, i, std::make_shared<Record>()};
        }
        std::vector<std::pair<std::string, int>> order;
        for (auto &[key, values] : fields)
            order.emplace_back(key, static_cast<int>(values.size()));
        std::stable_sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.second < b.second; });
        std::ostringstream text;
        for (auto &[key, count] : order)
            text << key << '=' << count << ';';
        return static_cast<int>(text.str().size()) + weigh(*this);
    }
};

template <int... numbers> int run_all(int seed, std::integer_sequence<int, numbers...>) {
    return (Record<numbers>().run(seed) + ... + 0);
}

int main(int argc, char **) {
    std::cout << run_all(argc, std::make_integer_sequence<int, 4>()) << '\n';
}
