/*
 * folder.h - a folder of the test's own, with files in the format of /proc and /sys.
 */
#ifndef HZ_TESTS_UNIT_FOLDER_H
#define HZ_TESTS_UNIT_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace unit {

class Folder : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/hz_folder_XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        std::filesystem::remove_all(folder_);
    }
    void write(const std::string &file, const std::string &text) {
        std::filesystem::path path = folder_ / file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    std::filesystem::path folder_;
};

} // namespace unit

#endif
