// Messages between the ranks of a job. What delivers them: shared_memory.cc on one machine, sockets.cc between machines.
#pragma once

#include <atomic>
#include <ctime>

#include "trainer_module/native/kernel.h"

#ifndef PER_PROCESS
#define PER_PROCESS  // The ranks of tests are threads.
#endif

namespace sangam {

constexpr int kChannels = 16;

// A part of a rank's message.
struct Part {
  const char* memory;
  int64_t bytes;
};

// A process's place among the ranks. Each channel has its own numbers, from 1; all ranks post and collect in one order.
class Messages {
 public:
  virtual ~Messages() = default;

  // Sends a message; the part of rank r ends at byte ends[r]. One end: all ranks get everything. Returns its number.
  virtual uint32_t post(int channel, Tensor data, const std::vector<int64_t>& ends) = 0;

  // Waits for all ranks' messages of a number; returns this rank's part of each, in rank order, until `release`.
  virtual std::vector<Part> arrived(int channel, int64_t number, TF_DataType type) = 0;

  virtual void release(int channel, uint32_t number) = 0;

  const int rank, ranks;

 protected:
  Messages(int rank, int ranks) : rank(rank), ranks(ranks) {}
};

// Of this process, which is a rank of one job at a time. It leaves by `sangam_leave` alone: the end of a process that
// failed does not wait for the others.
extern PER_PROCESS Messages* joined;

// Nanoseconds that this process has waited for messages of other ranks.
extern PER_PROCESS std::atomic<int64_t> waited_ns;

// Adds its lifetime to `waited_ns`.
class Wait {
 public:
  ~Wait() { waited_ns.fetch_add(now() - started_, std::memory_order_relaxed); }

 private:
  static int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }

  const int64_t started_ = now();
};

[[noreturn]] inline void refuse_number(int64_t number, uint32_t last) {
  refuse("number", "of no message under way", number, "the last one is ", last);
}

[[noreturn]] inline void refuse_type(int rank, int64_t got, TF_DataType wanted) {
  refuse("rank " + std::to_string(rank), "its message has another type", got, "needs ", wanted);
}

}  // namespace sangam
