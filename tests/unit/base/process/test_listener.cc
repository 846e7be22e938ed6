/* The thread that answers at a socket: its folder, its peers, its end. Real programs are asked in tests/command. */
#include "unit/base/fixture.h"
#include "unit/folder.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace {

sigset_t mask_of_listener;

void echo(const char *request, int file) {
    (void)pthread_sigmask(SIG_BLOCK, nullptr, &mask_of_listener);
    std::string text = std::string("<") + request + ">";
    EXPECT_EQ(hz_os_write(file, text.c_str(), text.size()), 0);
}

class Listener : public unit::Folder {
  protected:
    void TearDown() override {
        (void)hz_listener_end(true);
        hz_listener_forget();
        unit::Folder::TearDown();
    }

    bool start() {
        return hz_listener_start(folder_.c_str(), echo, &refusal_);
    }

    std::vector<std::string> sockets() {
        std::vector<std::string> found;
        for (const auto &entry : std::filesystem::directory_iterator(folder_ / "hakozuna"))
            found.push_back(entry.path());
        return found;
    }

    int connect_to(const std::string &path) {
        struct sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        EXPECT_LT(path.size(), sizeof(address.sun_path));
        memcpy(address.sun_path, path.c_str(), path.size());
        int file = socket(AF_UNIX, SOCK_STREAM, 0);
        EXPECT_EQ(connect(file, reinterpret_cast<struct sockaddr *>(&address), sizeof(address)), 0);
        return file;
    }

    std::string ask(const std::string &request) {
        int file = connect_to(sockets().at(0));
        EXPECT_EQ(::write(file, request.data(), request.size()), static_cast<ssize_t>(request.size()));
        std::string answer;
        char part[100];
        for (ssize_t got; (got = read(file, part, sizeof(part))) > 0;)
            answer.append(part, static_cast<size_t>(got));
        close(file);
        return answer;
    }

    struct hz_listener_refusal refusal_ = {};
};

TEST_F(Listener, AnswersUntilItEnds) {
    ASSERT_TRUE(start());
    ASSERT_EQ(sockets().size(), 1U);
    std::string name = std::filesystem::path(sockets()[0]).filename();
    EXPECT_EQ(name.rfind(std::to_string(getpid()) + ".", 0), 0U) << name;
    EXPECT_EQ(ask("a\n"), "<a>");
    EXPECT_EQ(ask("b c\nrest"), "<b c>");
    EXPECT_EQ(sigismember(&mask_of_listener, SIGUSR1) + sigismember(&mask_of_listener, SIGTERM), 2);
    EXPECT_TRUE(hz_listener_end(true));
    EXPECT_TRUE(sockets().empty());
    EXPECT_FALSE(hz_listener_end(true)) << "once";
}

TEST_F(Listener, TakesNoNumberOfTheProcess) {
    int before = dup(0);
    close(before);
    ASSERT_TRUE(start());
    EXPECT_EQ(ask("x\n"), "<x>");
    int after = dup(0);
    close(after);
    EXPECT_EQ(after, before);
}

TEST_F(Listener, TheSameProcessTakesItsSocketOver) {
    ASSERT_TRUE(start());
    std::vector<std::string> first = sockets();
    ASSERT_TRUE(hz_listener_end(true));
    hz_listener_forget();
    int left = socket(AF_UNIX, SOCK_STREAM, 0); /* as a program before exec leaves it */
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, first[0].c_str(), first[0].size());
    ASSERT_EQ(bind(left, reinterpret_cast<struct sockaddr *>(&address), sizeof(address)), 0);
    close(left);
    ASSERT_TRUE(start());
    EXPECT_EQ(sockets(), first);
    EXPECT_EQ(ask("x\n"), "<x>");
}

TEST_F(Listener, AFolderThatOthersCanEnterIsRefused) {
    std::filesystem::create_directory(folder_ / "hakozuna");
    ASSERT_EQ(chmod((folder_ / "hakozuna").c_str(), 0750), 0);
    EXPECT_FALSE(start());
    EXPECT_EQ(refusal_.error, EPERM);
    EXPECT_EQ(refusal_.folder, folder_ / "hakozuna");
    ASSERT_EQ(chmod((folder_ / "hakozuna").c_str(), 0700), 0);
    EXPECT_TRUE(start()) << "after a refusal it can be tried again";
}

TEST_F(Listener, AFileInsteadOfTheFolderIsRefused) {
    write("hakozuna", "");
    EXPECT_FALSE(start());
    EXPECT_EQ(refusal_.error, ENOTDIR);
}

TEST_F(Listener, AnEndWakesItWhereverItsFolderIs) {
    ASSERT_TRUE(start());
    std::filesystem::rename(folder_ / "hakozuna", folder_ / "other");
    EXPECT_TRUE(hz_listener_end(true)) << "by the pipe";
    std::filesystem::remove_all(folder_ / "other");
}

} // namespace
