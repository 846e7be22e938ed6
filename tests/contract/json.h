/* json.h - checks that a text is one JSON value (RFC 8259) and collects its numbers. Just enough to test the
   report of hz_stats_print without a parser library that allocates from the heap under test. */
#ifndef HZ_TESTS_CONTRACT_JSON_H
#define HZ_TESTS_CONTRACT_JSON_H

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

class JsonReader {
  public:
    /* True when the whole text is one well-formed value. */
    static bool valid(const std::string &text) {
        std::map<std::string, double> ignored;
        return numbers(text, ignored);
    }

    /* The numbers of the text, keyed by their path ("classes.0.live"); false when it is not well-formed. */
    static bool numbers(const std::string &text, std::map<std::string, double> &found) {
        JsonReader reader(text, found);
        if (!reader.value("", 0))
            return false;
        reader.space();
        return reader.at_ == text.size();
    }

  private:
    static constexpr int max_depth = 32;

    JsonReader(const std::string &text, std::map<std::string, double> &found) : text_(text), found_(found) {
    }

    void space() {
        while (at_ < text_.size() && strchr(" \t\r\n", text_[at_]) != nullptr)
            at_++;
    }
    bool take(char wanted) {
        space();
        if (at_ >= text_.size() || text_[at_] != wanted)
            return false;
        at_++;
        return true;
    }
    bool word(const char *wanted) {
        if (text_.compare(at_, strlen(wanted), wanted) != 0)
            return false;
        at_ += strlen(wanted);
        return true;
    }
    bool string(std::string &out) {
        if (!take('"'))
            return false;
        for (out.clear(); at_ < text_.size() && text_[at_] != '"'; at_++) {
            if (static_cast<unsigned char>(text_[at_]) < 0x20)
                return false;
            if (text_[at_] == '\\' && ++at_ >= text_.size())
                return false;
            out += text_[at_];
        }
        return take('"');
    }
    bool number(const std::string &path) {
        const char *start = text_.c_str() + at_;
        const char *digits = *start == '-' ? start + 1 : start;
        if (isdigit(static_cast<unsigned char>(*digits)) == 0)
            return false;
        if (*digits == '0' && isdigit(static_cast<unsigned char>(digits[1])) != 0)
            return false;
        char *end = nullptr;
        found_[path] = strtod(start, &end);
        at_ += static_cast<size_t>(end - start);
        return true;
    }
    static std::string join(const std::string &path, const std::string &key) {
        return path.empty() ? key : path + "." + key;
    }
    bool object(const std::string &path, int depth) {
        if (take('}'))
            return true;
        do {
            std::string key;
            if (!string(key) || !take(':') || !value(join(path, key), depth))
                return false;
        } while (take(','));
        return take('}');
    }
    bool array(const std::string &path, int depth) {
        if (take(']'))
            return true;
        int index = 0;
        do {
            if (!value(join(path, std::to_string(index++)), depth))
                return false;
        } while (take(','));
        return take(']');
    }
    bool value(const std::string &path, int depth) {
        space();
        if (depth > max_depth || at_ >= text_.size())
            return false;
        std::string ignored;
        switch (text_[at_]) {
        case '{':
            at_++;
            return object(path, depth + 1);
        case '[':
            at_++;
            return array(path, depth + 1);
        case '"':
            return string(ignored);
        case 't':
            return word("true");
        case 'f':
            return word("false");
        case 'n':
            return word("null");
        default:
            return number(path);
        }
    }

    const std::string &text_;
    std::map<std::string, double> &found_;
    size_t at_ = 0;
};

#endif
