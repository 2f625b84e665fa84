#include "experiments/cli/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): posix_openpt
#include <termios.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/socket.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a user's terminal receives. The other end is a FILE, as standard error is.
class Terminal {
 public:
  Terminal() : keyboard_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(grantpt(keyboard_.get()), 0);
    EXPECT_EQ(unlockpt(keyboard_.get()), 0);
    std::array<char, 128> name{};
    EXPECT_EQ(ptsname_r(keyboard_.get(), name.data(), name.size()), 0);
    const int fd = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    termios raw{};
    EXPECT_EQ(tcgetattr(fd, &raw), 0);
    cfmakeraw(&raw);
    EXPECT_EQ(tcsetattr(fd, TCSANOW, &raw), 0);
    out_ = fdopen(fd, "w");
  }
  ~Terminal() { fclose(out_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  std::FILE* out() { return out_; }
  // All that has been shown since the last call.
  std::string Shown() {
    fflush(out_);
    std::string shown;
    std::array<char, 4'096> buffer{};
    pollfd readable{keyboard_.get(), POLLIN, 0};
    while (poll(&readable, 1, 0) > 0 && (readable.revents & POLLIN) != 0) {
      const ssize_t size = read(keyboard_.get(), buffer.data(), buffer.size());
      if (size <= 0) break;
      shown.append(buffer.data(), static_cast<size_t>(size));
    }
    return shown;
  }

 private:
  const UniqueFd keyboard_;
  std::FILE* out_ = nullptr;
};

constexpr char kClear[] = "\r\033[K";

TEST(ProgressTest, OneLineIsRewrittenOnATerminal) {
  Terminal terminal;
  ManualClock clock;
  {
    Progress progress(terminal.out(), /*plain=*/false, {"ring", "ring"}, clock);
    progress.BeginRun(1, 2, 120);
    EXPECT_EQ(terminal.Shown(), std::string(kClear) + "run 1/2  block 1/2  ring  starting");
    clock.AdvanceMs(1'000);
    progress.Update(/*running=*/true, 30);
    EXPECT_EQ(terminal.Shown(),
              std::string(kClear) + "run 1/2  block 1/2  ring  step 30/120  about 7 s left");
    clock.AdvanceMs(199);
    progress.Update(/*running=*/true, 40);
    EXPECT_EQ(terminal.Shown(), "") << "at most five times a second";
    clock.AdvanceMs(38'801);
    progress.EndRun();
    EXPECT_EQ(terminal.Shown(), kClear);
    progress.BeginRun(2, 2, 120);
    EXPECT_EQ(terminal.Shown(),
              std::string(kClear) + "run 2/2  block 2/2  ring  starting  about 40 s left");
    progress.Say("waiting for worker 1");
    EXPECT_EQ(terminal.Shown(), std::string(kClear) + "waiting for worker 1\n");
  }
  EXPECT_EQ(terminal.Shown(), kClear) << "the line goes when the comparison is over";
}

TEST(ProgressTest, ALongNameStaysOnOneLine) {
  Terminal terminal;
  ManualClock clock;
  Progress progress(terminal.out(), /*plain=*/false, {std::string(64, 'x')}, clock);
  progress.BeginRun(1, 1, 120);
  clock.AdvanceMs(1'000);
  progress.Update(/*running=*/true, 60);
  const std::string shown = terminal.Shown();
  EXPECT_EQ(shown.size() - shown.rfind(kClear), std::string(kClear).size() + 78);
}

std::string PlainLines(std::FILE* file) {
  fflush(file);
  rewind(file);
  std::string text(4'096, '\0');
  text.resize(fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(ProgressTest, ElsewhereALineForEveryRunAndEveryFiveSeconds) {
  std::FILE* file = tmpfile();
  ManualClock clock;
  {
    Progress progress(file, /*plain=*/false, {"none", "ring-n4", "none"}, clock);
    progress.BeginRun(1, 2, 120);
    clock.AdvanceMs(4'999);
    progress.Update(/*running=*/true, 10);
    clock.AdvanceMs(1);
    progress.Update(/*running=*/true, 60);
    clock.AdvanceMs(5'000);
    progress.EndRun();
    progress.BeginRun(1, 2, 120);
    progress.Say("waiting for worker 1");
    progress.EndRun();
  }
  const std::string text = PlainLines(file);
  EXPECT_EQ(text,
            "run=1/3 block=1/2 variant=none step=0/120 eta_s=?\n"
            "run=1/3 block=1/2 variant=none step=60/120 eta_s=25\n"
            "run=2/3 block=1/2 variant=ring-n4 step=0/120 eta_s=20\n"
            "waiting for worker 1\n");
  fclose(file);
}

TEST(ProgressTest, PlainHoldsOnATerminalToo) {
  Terminal terminal;
  ManualClock clock;
  Progress progress(terminal.out(), /*plain=*/true, {"ring"}, clock);
  progress.BeginRun(1, 1, 120);
  EXPECT_THAT(terminal.Shown(), testing::AllOf(HasSubstr("eta_s=?\n"), Not(HasSubstr("\033"))));
}

}  // namespace
}  // namespace lockstep
