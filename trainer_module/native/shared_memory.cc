// Messages between the ranks of one machine through shared memory: no negotiation, no extra thread, and only one copy
// into the memory and one out of it.
//
// Every rank has a control block and, for each channel, two slots; all are anonymous files (memfd) that the others open
// by /proc/PID/fd. A message is written into the next slot; that waits only while a rank has yet to read the message of
// two before. The order of posts and collects in a step must be equal on all ranks, so that none waits for another in a
// circle; trainer_module/collectives/in_order.py ensures it.
#include <fcntl.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <ctime>
#include <memory>

#include "trainer_module/native/messages.h"

namespace sangam {
namespace {

constexpr int kMaxRanks = 64, kSlots = 2;
constexpr uint64_t kFormat = 0x53616e67616d0002;  // Format number of the control block.
constexpr int kSpins = 1000;                      // 50 us of CPU time, about the cost of a sleep and a wake.
constexpr int kLooks = 25;                        // A leaving rank waits at most 5 s for the others' reads.
constexpr long kLookAgainNs = 200'000'000;        // Interval at which a waiting rank checks that the other one lives.

struct Slot {
  int64_t serial;  // Number of the slot's file, which a larger one replaces when a message does not fit.
  int64_t capacity;
  int32_t file;
  int32_t type;
  int32_t is_for_all;              // All ranks read part 0; otherwise each reads its own.
  int64_t offsets[kMaxRanks + 1];  // Bytes; the part of rank r lies between offsets r and r + 1.
};

struct Channel {
  alignas(64) std::atomic<uint32_t> posted;     // Number of the last message written.
  alignas(64) std::atomic<uint32_t> collected;  // Number of the last message read from all ranks.
  Slot slots[kSlots];
};

struct Control {
  uint64_t format;
  std::atomic<uint32_t> has_left;
  Channel channels[kChannels];
};

struct Mapping {
  int64_t serial = 0;
  int64_t capacity = 0;
  char* memory = nullptr;
};

PER_PROCESS int own_control = -1;  // File of this process's control block, before it joins.

int made_file(int64_t bytes) {
  int file = static_cast<int>(syscall(SYS_memfd_create, "sangam-ranks", MFD_CLOEXEC));
  if (file >= 0 && ftruncate(file, bytes) != 0) {
    close(file);
    return -1;
  }
  return file;
}

void* mapped(int file, int64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

int opened(pid_t process, int file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
  return open(path, O_RDWR | O_CLOEXEC);
}

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  timespec time{0, kLookAgainNs};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void publish(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

class SharedMemory : public Messages {
 public:
  SharedMemory(int rank, int ranks) : Messages(rank, ranks), control_file_(std::exchange(own_control, -1)) {}

  ~SharedMemory() override;

  // Opens a rank's control block; returns whether it can be read.
  bool reach(int other, pid_t process, int file) {
    int found = opened(process, file);
    if (found < 0) return false;
    auto* control = static_cast<Control*>(mapped(found, sizeof(Control)));
    close(found);
    if (control == nullptr || control->format != kFormat) return false;
    processes_[other] = process;
    watches_[other] = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    controls_[other] = control;
    return true;
  }

  // Lets the ranks spin before they sleep, if each has one of the cores that they may keep busy: otherwise a rank could
  // spin on the core that it waits for.
  void spin_with(int cores) {
    cpu_set_t usable;  // By any of the ranks.
    CPU_ZERO(&usable);
    for (int other = 0; other < ranks; ++other) {
      cpu_set_t of_rank;
      CPU_ZERO(&of_rank);
      sched_getaffinity(processes_[other], sizeof of_rank, &of_rank);
      CPU_OR(&usable, &usable, &of_rank);
    }
    spins_ = std::min(CPU_COUNT(&usable), cores) >= ranks ? kSpins : 0;
  }

  uint32_t post(int channel, Tensor data, const std::vector<int64_t>& ends) override {
    Channel& own = controls_[rank]->channels[channel];
    uint32_t next = own.posted.load(std::memory_order_relaxed) + 1;
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      wait_for(other, controls_[other]->channels[channel].collected, next - kSlots);
    }
    char* memory = room_for(channel, next % kSlots, data.bytes());
    if (memory == nullptr) fail(TF_RESOURCE_EXHAUSTED, "no shared memory: " + std::string(strerror(errno)));
    memcpy(memory, data.data<char>(), data.bytes());
    Slot& slot = own.slots[next % kSlots];
    slot.type = data.type();
    slot.is_for_all = ends.size() == 1;
    slot.offsets[0] = 0;
    std::copy(ends.begin(), ends.end(), slot.offsets + 1);
    publish(own.posted, next);
    return next;
  }

  std::vector<Part> arrived(int channel, int64_t given, TF_DataType type) override {
    Channel& own = controls_[rank]->channels[channel];
    uint32_t posted = own.posted.load(std::memory_order_relaxed), number = static_cast<uint32_t>(given);
    if (number != given || posted - number >= kSlots || own.slots[number % kSlots].serial == 0)
      refuse_number(given, posted);
    std::vector<Part> found;
    for (int other = 0; other < ranks; ++other) {
      wait_for(other, controls_[other]->channels[channel].posted, number);
      const char* memory = memory_of(other, channel, number % kSlots);
      if (memory == nullptr)
        fail(TF_UNAVAILABLE, "rank " + std::to_string(other) + ": its memory cannot be read: " + strerror(errno));
      const Slot& slot = controls_[other]->channels[channel].slots[number % kSlots];
      if (slot.type != type) refuse_type(other, slot.type, type);
      const int64_t* offsets = slot.offsets + (slot.is_for_all ? 0 : rank);
      int64_t begin = offsets[0], bytes = offsets[1] - begin;
      int64_t capacity = mappings_[other][channel][number % kSlots].capacity;
      if (begin < 0 || bytes < 0 || bytes > capacity - begin)
        refuse("rank " + std::to_string(other), "its message does not fit its memory", bytes, "bytes are at most ",
               capacity);
      found.push_back({memory + begin, bytes});
    }
    return found;
  }

  void release(int channel, uint32_t number) override {
    publish(controls_[rank]->channels[channel].collected, number);
  }

 private:
  bool has_ended(int other) {
    if (controls_[other]->has_left.load(std::memory_order_acquire)) return true;
    pollfd watch{watches_[other], POLLIN, 0};
    if (watch.fd >= 0) return poll(&watch, 1, 0) > 0;
    return kill(processes_[other], 0) != 0 && errno == ESRCH;
  }

  static bool has_reached(const std::atomic<uint32_t>& word, uint32_t number) {
    return static_cast<int32_t>(word.load(std::memory_order_acquire) - number) >= 0;
  }

  // Waits until a rank's counter reaches a number.
  void wait_for(int other, std::atomic<uint32_t>& word, uint32_t number) {
    if (has_reached(word, number)) return;
    Wait wait;
    for (int spin = 0; spin < spins_ && !has_reached(word, number); ++spin) _mm_pause();
    for (;;) {
      uint32_t value = word.load(std::memory_order_acquire);
      if (static_cast<int32_t>(value - number) >= 0) return;
      if (has_ended(other)) fail(TF_UNAVAILABLE, "rank " + std::to_string(other) + " has left the job");
      sleep_while(word, value);
    }
  }

  // Returns the memory of a rank's slot, or null.
  char* memory_of(int other, int channel, int slot) {
    const Slot& described = controls_[other]->channels[channel].slots[slot];
    Mapping& mapping = mappings_[other][channel][slot];
    if (mapping.serial == described.serial) return mapping.memory;
    if (mapping.memory != nullptr) munmap(mapping.memory, mapping.capacity);
    mapping = Mapping{};
    int file = opened(processes_[other], described.file);
    if (file < 0) return nullptr;
    char* memory = static_cast<char*>(mapped(file, described.capacity));
    close(file);
    if (memory != nullptr) mapping = Mapping{described.serial, described.capacity, memory};
    return memory;
  }

  // Makes this rank's slot hold at least `bytes`; returns its memory, or null.
  char* room_for(int channel, int slot, int64_t bytes) {
    Slot& described = controls_[rank]->channels[channel].slots[slot];
    Mapping& mapping = mappings_[rank][channel][slot];
    if (mapping.memory != nullptr && bytes <= mapping.capacity) return mapping.memory;
    int64_t capacity = ((bytes + bytes / 4) / 4096 + 1) * 4096;
    int file = made_file(capacity);
    if (file < 0) return nullptr;
    char* memory = static_cast<char*>(mapped(file, capacity));
    if (memory == nullptr) {
      close(file);
      return nullptr;
    }
    if (mapping.memory != nullptr) {
      munmap(mapping.memory, mapping.capacity);
      close(described.file);
    }
    described.file = file;
    described.capacity = capacity;
    described.serial = ++files_made_;
    mapping = Mapping{described.serial, capacity, memory};
    return memory;
  }

  int spins_ = 0;
  int control_file_;
  int64_t files_made_ = 0;
  pid_t processes_[kMaxRanks];
  int watches_[kMaxRanks];  // pidfds of the processes; -1 before Linux 5.3.
  Control* controls_[kMaxRanks] = {};
  Mapping mappings_[kMaxRanks][kChannels][kSlots];
};

SharedMemory::~SharedMemory() {
  Control* own = controls_[rank];
  int looks = 0;
  for (int index = 0; own != nullptr && index < kChannels; ++index) {
    uint32_t posted = own->channels[index].posted.load(std::memory_order_relaxed);
    for (int other = 0; other < ranks; ++other) {
      if (other == rank || controls_[other] == nullptr) continue;
      std::atomic<uint32_t>& collected = controls_[other]->channels[index].collected;
      for (uint32_t read = collected.load(); read != posted && !has_ended(other) && looks < kLooks;
           read = collected.load(), ++looks) {
        sleep_while(collected, read);
      }
    }
  }
  if (own != nullptr) {
    own->has_left.store(1, std::memory_order_release);
    for (Channel& channel : own->channels) {
      syscall(SYS_futex, &channel.posted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      syscall(SYS_futex, &channel.collected, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      for (Slot& slot : channel.slots)
        if (slot.serial != 0) close(slot.file);
    }
  }
  for (int other = 0; other < ranks; ++other) {
    for (auto& slots : mappings_[other])
      for (Mapping& mapping : slots)
        if (mapping.memory != nullptr) munmap(mapping.memory, mapping.capacity);
    if (controls_[other] == nullptr) continue;
    munmap(controls_[other], sizeof(Control));
    if (watches_[other] >= 0) close(watches_[other]);
  }
  close(control_file_);
}

}  // namespace
}  // namespace sangam

// Called from Python by ctypes.
#pragma GCC visibility push(default)
extern "C" {

// Creates this process's control block; returns its file, or -errno.
int sangam_open() noexcept {
  using namespace sangam;
  own_control = made_file(sizeof(Control));
  if (own_control < 0) return -errno;
  auto* control = static_cast<Control*>(mapped(own_control, sizeof(Control)));
  if (control == nullptr) return -errno;
  control->format = kFormat;
  munmap(control, sizeof(Control));
  return own_control;
}

// Joins the ranks' control blocks, given by process and file in rank order; returns the first rank with an unreadable
// block, or -1. It returns 64 if there cannot be such a rank. `cores` are as many as the ranks may keep busy.
int sangam_join(int rank, int ranks, const int* processes, const int* files, int cores) noexcept {
  using namespace sangam;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) return kMaxRanks;
  auto messages = std::make_unique<SharedMemory>(rank, ranks);
  for (int other = 0; other < ranks; ++other)
    if (!messages->reach(other, processes[other], files[other])) return other;
  messages->spin_with(cores);
  joined = messages.release();
  return -1;
}

}  // extern "C"
#pragma GCC visibility pop
