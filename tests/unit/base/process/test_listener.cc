/* The thread that answers at a socket: its folder, its peers, its end. Real programs are asked in tests/command. */
#include "unit/base/fixture.h"
#include "unit/folder.h"

#include <atomic>
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

constexpr size_t large_bytes = 4 << 20; /* more than the socket's buffers hold */

std::atomic<uint64_t> due_ms{UINT64_MAX};
std::atomic<int> looks{0};

int echo(const char *request, int file) {
    (void)pthread_sigmask(SIG_BLOCK, nullptr, &mask_of_listener);
    if (strcmp(request, "fail") == 0)
        return ENOSPC;
    std::string text = std::string("<") + request + ">";
    if (strcmp(request, "large") == 0)
        text.assign(large_bytes, 'x');
    return hz_os_write(file, text.c_str(), text.size());
}

uint64_t look() {
    looks++;
    uint64_t due = due_ms;
    if (hz_os_now_ms() >= due)
        due_ms = UINT64_MAX;
    return due_ms;
}

const struct hz_listener_duties duties = {echo, look};

class Listener : public unit::Folder {
  protected:
    void TearDown() override {
        (void)hz_listener_end(true);
        hz_listener_forget();
        unit::Folder::TearDown();
    }

    bool start() {
        return hz_listener_start(folder_.c_str(), &duties, &refusal_);
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

    int ask_without_reading(const std::string &request) {
        int file = connect_to(sockets().at(0));
        EXPECT_EQ(::write(file, request.data(), request.size()), static_cast<ssize_t>(request.size()));
        return file;
    }

    static std::string read_all(int file) {
        std::string answer;
        char part[4096];
        for (ssize_t got; (got = read(file, part, sizeof(part))) > 0;)
            answer.append(part, static_cast<size_t>(got));
        close(file);
        return answer;
    }

    std::string ask(const std::string &request) {
        return read_all(ask_without_reading(request));
    }

    /* Where there are other sockets, too. */
    std::string ask_of_own(const std::string &request) {
        for (const std::string &path : sockets()) {
            if (std::filesystem::path(path).filename().string().rfind(std::to_string(getpid()) + ".", 0) != 0)
                continue;
            int file = connect_to(path);
            EXPECT_EQ(::write(file, request.data(), request.size()), static_cast<ssize_t>(request.size()));
            return read_all(file);
        }
        return "no socket";
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

/* The thread that ends it found no reader at the pipe any more, and SIGPIPE ended the program: once in 300 times. */
TEST_F(Listener, MayEndByItselfWhileItIsEnded) {
    constexpr int times = 1000;
    for (int i = 0; i < times; i++) {
        ASSERT_TRUE(start());
        ASSERT_EQ(ask("x\n"), "<x>");
        ASSERT_TRUE(hz_listener_end(true)) << i;
        ASSERT_TRUE(sockets().empty()) << i;
        hz_listener_forget();
    }
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

TEST_F(Listener, PeersThatDoNotReadHoldUpNobody) {
    ASSERT_TRUE(start());
    std::vector<int> files;
    while (files.size() < HZ_LISTENER_PEERS - 1)
        files.push_back(ask_without_reading(files.size() % 2 == 0 ? "large\n" : "half a line"));
    EXPECT_EQ(ask("x\n"), "<x>");
    for (size_t i = 0; i < files.size(); i++)
        if (i % 2 == 0)
            EXPECT_EQ(read_all(files[i]).size(), large_bytes) << "nothing is lost meanwhile";
        else
            close(files[i]);
}

TEST_F(Listener, AllPlacesAreTakenUntilOnePeerIsLeft) {
    ASSERT_TRUE(start());
    std::vector<int> files;
    while (files.size() < HZ_LISTENER_PEERS)
        files.push_back(ask_without_reading("half a line"));
    EXPECT_EQ(ask("x\n"), "<x>") << "when the first one has had its seconds";
    for (int file : files)
        close(file);
}

TEST_F(Listener, AnAnswerThatFailsIsALine) {
    ASSERT_TRUE(start());
    EXPECT_EQ(ask("fail\n"), "no: there is no memory for the answer, or a filter or limit forbids it: error " +
                                 std::to_string(ENOSPC) + "\n");
}

TEST_F(Listener, LooksWhenItIsTime) {
    due_ms = hz_os_now_ms() + 20;
    ASSERT_TRUE(start());
    while (due_ms != UINT64_MAX)
        usleep(1000);
    EXPECT_EQ(ask("x\n"), "<x>");
    EXPECT_GE(looks, 2);
}

TEST_F(Listener, WhatAnotherNamespaceHasIsLeftAlone) {
    std::filesystem::create_directory(folder_ / "hakozuna");
    ASSERT_EQ(chmod((folder_ / "hakozuna").c_str(), 0700), 0);
    const unsigned nobody = 0x7ffffffe;
    std::string path = folder_ / "hakozuna" / (std::to_string(nobody) + ".0123456789abcdef");
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.c_str(), path.size());
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ASSERT_EQ(bind(other, reinterpret_cast<struct sockaddr *>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(other, 1), 0);
    ASSERT_TRUE(start());
    EXPECT_EQ(ask_of_own("x\n"), "<x>") << "by now it has looked";
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(accept(other, nullptr, nullptr), -1) << "nobody has connected";
    EXPECT_EQ(errno, EAGAIN);
    close(other);
}

TEST_F(Listener, WhatAnEndedProcessOfThisNamespaceLeftGoes) {
    ASSERT_TRUE(start());
    std::string name = std::filesystem::path(sockets().at(0)).filename();
    ASSERT_TRUE(hz_listener_end(true));
    hz_listener_renew();
    std::string path = folder_ / "hakozuna" / ("2147483646." + name.substr(name.find('.') + 1));
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.c_str(), path.size());
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(other, reinterpret_cast<struct sockaddr *>(&address), sizeof(address)), 0);
    close(other);
    ASSERT_TRUE(start());
    EXPECT_EQ(ask_of_own("x\n"), "<x>");
    EXPECT_FALSE(std::filesystem::exists(path));
}

} // namespace
