/* The configuration: the string names every knob, and derived numbers keep their bounds. */
#include "unit/library.h"

#include "hakozuna/hakozuna.h"

#include <cctype>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>

namespace {

/* The words of the string. Fails on a word that is not key=value, or that comes twice. */
std::map<std::string, std::string> words() {
    std::map<std::string, std::string> found;
    std::istringstream text(hz_heap_config_string());
    for (std::string word; text >> word;) {
        size_t equals = word.find('=');
        EXPECT_NE(equals, std::string::npos) << word;
        EXPECT_GT(equals, 0U) << word;
        EXPECT_LT(equals + 1, word.size()) << word;
        EXPECT_TRUE(found.emplace(word.substr(0, equals), word.substr(equals + 1)).second) << word << " twice";
    }
    return found;
}

TEST(Config, StringIsOneLineOfWords) {
    std::string text = hz_heap_config_string();
    EXPECT_EQ(text.find_first_of("\n\t"), std::string::npos);
    EXPECT_EQ(text.find("  "), std::string::npos);
    EXPECT_FALSE(isspace(static_cast<unsigned char>(text.front())) || isspace(static_cast<unsigned char>(text.back())));
    EXPECT_EQ(text.find('"'), std::string::npos) << "the preprocessor left no quotes";
    EXPECT_EQ(text.rfind("engine=" HZ_ENGINE_NAME " lane=", 0), 0U);
    EXPECT_STREQ(hz_config_string(), hz_heap_config_string());
    words();
}

TEST(Config, StringHasEveryKnobWithItsValue) {
    std::map<std::string, std::string> found = words();
#define KNOB(name, smallest, largest, default_value, unit, text)                                                       \
    EXPECT_EQ(found[#name], std::to_string(name));                                                                     \
    EXPECT_LE(smallest, name);                                                                                         \
    EXPECT_GE(largest, name);                                                                                          \
    EXPECT_GT(sizeof(text), 10U) << #name " has a text";
#include "engine_knobs.def"
#include "heap/knobs.def"
#undef KNOB
}

TEST(Config, StringSaysWhatWasBuilt) {
    std::map<std::string, std::string> found = words();
    EXPECT_EQ(found["engine"], HZ_ENGINE_NAME);
    EXPECT_EQ(found["lane"], HZ_LANE_NAME);
    EXPECT_EQ(found["version"], hz_version());
    EXPECT_EQ(found["shards"], std::to_string(HZ_NUM_SHARDS));
    EXPECT_EQ(found["checks"], std::to_string(HZ_CONFIG_CHECKS));
    EXPECT_EQ(found["stats"], std::to_string(HZ_CONFIG_STATS));
    EXPECT_EQ(found["build"], HZ_BUILD_NAME);
    EXPECT_TRUE(found["compiler"].rfind("gcc-", 0) == 0 || found["compiler"].rfind("clang-", 0) == 0);
}

TEST(Config, BinsAndBatchesKeepTheirBounds) {
    for (unsigned size_class = 1; size_class < HZ_CLASS_COUNT; size_class++) {
        size_t bytes = hz_class_bytes(size_class);
        uint32_t capacity = hz_bin_capacity(size_class);
        uint32_t batch = hz_batch_count(size_class);
        EXPECT_GE(capacity, 2U) << "class " << size_class;
        EXPECT_LE(capacity, static_cast<uint32_t>(HZ_BIN_COUNT));
        uint32_t start = hz_bin_start(size_class);
        EXPECT_GE(start, 2U) << "a new bin has room for two blocks";
        EXPECT_LE(start, capacity);
        EXPECT_EQ(start % 2, 0U);
        EXPECT_TRUE(start * bytes <= HZ_BIN_START_BYTES || start <= static_cast<uint32_t>(HZ_BIN_COUNT_MIN));
        EXPECT_GE(batch, 1U);
        EXPECT_LE(batch, static_cast<uint32_t>(HZ_BATCH_COUNT));
        EXPECT_LE(2 * batch, capacity) << "a bin that was flushed by half has room for a batch";
        EXPECT_TRUE(capacity * bytes <= HZ_BIN_BYTES || capacity <= static_cast<uint32_t>(HZ_BIN_COUNT_MIN));
        EXPECT_EQ(hz_class_is_home(size_class), static_cast<int>(bytes) < HZ_HOME_BELOW_BYTES);
        EXPECT_EQ(hz_class_is_mid(size_class), bytes > HZ_SMALL_MAX);
        if (size_class > 1) {
            EXPECT_LE(capacity, hz_bin_capacity(size_class - 1)) << "a bin of larger blocks holds no more of them";
        }
    }
}

} // namespace
