/*
 * report.h - gives tests the output of hz_stats_print: the text, and its counters by "group.name".
 */
#ifndef HZ_TESTS_CONTRACT_REPORT_H
#define HZ_TESTS_CONTRACT_REPORT_H

#include "api.h"
#include "json.h"

#include <map>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace report {

using Values = std::map<std::string, double>;
using Names = std::set<std::string>;

/* A report in a memory file: taken now and read later, so that reading it allocates nothing between two reports. */
class Taken {
  public:
    explicit Taken(enum hz_stats_format format)
        : fd_(memfd_create("report", MFD_CLOEXEC)), result_(t_stats_print(fd_, format)) {
    }
    ~Taken() {
        close(fd_);
    }
    Taken(const Taken &) = delete;
    Taken &operator=(const Taken &) = delete;

    /* Empty when the report could not be written. */
    std::string text() const {
        off_t length = lseek(fd_, 0, SEEK_END);
        if (result_ != 0 || length < 0)
            return "";
        std::string text(static_cast<size_t>(length), '\0');
        return pread(fd_, text.data(), text.size(), 0) == length ? text : "";
    }

  private:
    int fd_;
    int result_;
};

inline std::string printed(enum hz_stats_format format) {
    return Taken(format).text();
}

/* True for names in the groups of the report that hold counters. */
inline bool is_counter(const std::string &name) {
    static const Names groups = {"counters", "mid", "remote", "os", "locks"};
    return groups.count(name.substr(0, name.find('.'))) == 1;
}

/* The counters of a JSON report; empty when the report is not well-formed. */
inline Values counters_of_json(const std::string &text) {
    Values all;
    Values counters;
    if (JsonReader::numbers(text, all))
        for (const auto &[name, value] : all)
            if (is_counter(name))
                counters[name] = value;
    return counters;
}

/* The counters of a verbose report: a line with the group's name, then lines "  name:   value". */
inline Values counters_of_text(const std::string &text) {
    Values counters;
    std::string group;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        std::string line = text.substr(at, end - at);
        size_t colon = line.find(':');
        at = end + 1;
        if (line.find_first_of(" :") == std::string::npos)
            group = line;
        else if (line.rfind("  ", 0) == 0 && colon != std::string::npos && is_counter(group + "."))
            counters[group + "." + line.substr(2, colon - 2)] = strtod(line.c_str() + colon + 1, nullptr);
    }
    return counters;
}

inline Names names_of(const Values &values) {
    Names names;
    for (const auto &each : values)
        names.insert(each.first);
    return names;
}

} // namespace report

#endif
