// Messages between the ranks of one machine through shared memory: no negotiation, no extra thread, and only one copy
// into the memory and one out of it.
//
// Every rank has a control block and, for each channel, two slots; all are anonymous files (memfd) that the others open
// by /proc/PID/fd. `Post` writes a message into the next slot and returns its number; it waits only while a rank has
// yet to read the message of two before. `Collect` waits until all ranks have posted that number, and reads. The order
// of posts and collects in a step must be equal on all ranks; trainer_module/collectives/shared_memory.py ensures it.
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

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int kMaxRanks = 64, kChannels = 16, kSlots = 2;
constexpr uint64_t kFormat = 0x53616e67616d0001;  // Format number of the control block.
constexpr int kSpins = 1000;                      // 50 us of CPU time, about the cost of a sleep and a wake.
constexpr int kLooks = 25;                        // A leaving rank waits at most 5 s for the others' reads.
constexpr long kLookAgainNs = 200'000'000;        // Interval at which a waiting rank checks that the other one lives.

struct Slot {
  int64_t serial;  // Number of the slot's file, which a larger one replaces when a message does not fit.
  int64_t capacity;
  int32_t file;
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

// A process is one rank of one job at a time.
struct Job {
  int rank = 0, ranks = 0, spins = 0;
  int control_file = -1;
  int64_t files_made = 0;
  pid_t processes[kMaxRanks];
  int watches[kMaxRanks];  // pidfds of the processes; -1 before Linux 5.3.
  Control* controls[kMaxRanks];
  Mapping mappings[kMaxRanks][kChannels][kSlots];
};
Job job;

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

bool has_ended(int rank) {
  if (job.controls[rank]->has_left.load(std::memory_order_acquire)) return true;
  pollfd watch{job.watches[rank], POLLIN, 0};
  if (watch.fd >= 0) return poll(&watch, 1, 0) > 0;
  return kill(job.processes[rank], 0) != 0 && errno == ESRCH;
}

// Waits until a rank's counter reaches a number; returns an error, or an empty string.
std::string wait_for(int rank, std::atomic<uint32_t>& word, uint32_t number) {
  for (int spin = 0;; ++spin) {
    uint32_t value = word.load(std::memory_order_acquire);
    if (static_cast<int32_t>(value - number) >= 0) return "";
    if (spin < job.spins) {
      _mm_pause();
      continue;
    }
    if (has_ended(rank)) return "rank " + std::to_string(rank) + " has left the job";
    sleep_while(word, value);
  }
}

// Returns the memory of a rank's slot, or null.
char* memory_of(int rank, int channel, int slot) {
  const Slot& described = job.controls[rank]->channels[channel].slots[slot];
  Mapping& mapping = job.mappings[rank][channel][slot];
  if (mapping.serial == described.serial) return mapping.memory;
  if (mapping.memory != nullptr) munmap(mapping.memory, mapping.capacity);
  mapping = Mapping{};
  int file = opened(job.processes[rank], described.file);
  if (file < 0) return nullptr;
  char* memory = static_cast<char*>(mapped(file, described.capacity));
  close(file);
  if (memory != nullptr) mapping = Mapping{described.serial, described.capacity, memory};
  return memory;
}

// Makes this rank's slot hold at least `bytes`; returns its memory, or null.
char* room_for(int channel, int slot, int64_t bytes) {
  Slot& described = job.controls[job.rank]->channels[channel].slots[slot];
  Mapping& mapping = job.mappings[job.rank][channel][slot];
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
  described.serial = ++job.files_made;
  mapping = Mapping{described.serial, capacity, memory};
  return memory;
}

struct Attributes {
  int32_t channel;
};

void* create(TF_OpKernelConstruction* construction) {
  auto* attributes = new Attributes{int_attribute(construction, "channel")};
  return attributes;
}

void destroy(void* attributes) { delete static_cast<Attributes*>(attributes); }

void post(void* attributes, TF_OpKernelContext* context) {
  Call call(context);
  Tensor data = call.input(0), counts = call.input(1), number = call.output(0, TF_INT64, {});
  if (!call.ok()) return;
  if (job.ranks == 0) return call.fail(TF_FAILED_PRECONDITION, "this process has joined no job of shared memory");
  int index = static_cast<Attributes*>(attributes)->channel;
  Channel& channel = job.controls[job.rank]->channels[index];
  uint32_t next = channel.posted.load(std::memory_order_relaxed) + 1;
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (rank == job.rank) continue;
    std::string wrong = wait_for(rank, job.controls[rank]->channels[index].collected, next - kSlots);
    if (!wrong.empty()) return call.fail(TF_UNAVAILABLE, wrong);
  }
  char* memory = room_for(index, next % kSlots, data.bytes());
  if (memory == nullptr) return call.fail(TF_RESOURCE_EXHAUSTED, "no shared memory: " + std::string(strerror(errno)));
  memcpy(memory, data.data<char>(), data.bytes());
  Slot& slot = channel.slots[next % kSlots];
  int64_t parts = counts.size(), width = data.size() ? data.bytes() / data.size() : 1;
  slot.offsets[0] = 0;
  for (int64_t part = 0; part < parts; ++part) {
    slot.offsets[part + 1] = slot.offsets[part] + counts.data<int32_t>()[part] * width;
  }
  if (slot.offsets[parts] != data.bytes()) return call.fail(TF_INVALID_ARGUMENT, "parts must add up to the message");
  *number.data<int64_t>() = next;
  publish(channel.posted, next);
}

// Waits for message `number` of all ranks; false: the call has failed.
bool arrived(Call& call, int channel, uint32_t number, char* memories[kMaxRanks]) {
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::string wrong = wait_for(rank, job.controls[rank]->channels[channel].posted, number);
    if (wrong.empty() && (memories[rank] = memory_of(rank, channel, number % kSlots)) == nullptr) {
      wrong = "rank " + std::to_string(rank) + ": its memory cannot be read: " + strerror(errno);
    }
    if (!wrong.empty()) {
      call.fail(TF_UNAVAILABLE, wrong);
      return false;
    }
  }
  return true;
}

// Reads the parts for this rank, or with `whole` all posted parts.
template <bool whole>
void collect_parts(void* attributes, TF_OpKernelContext* context) {
  Call call(context);
  int channel = static_cast<Attributes*>(attributes)->channel;
  char* memories[kMaxRanks];
  Tensor posted = call.input(0);
  if (!call.ok()) return;
  uint32_t number = static_cast<uint32_t>(*posted.data<int64_t>());
  if (!arrived(call, channel, number, memories)) return;
  int64_t width = static_cast<int64_t>(TF_DataTypeSize(TF_ExpectedOutputDataType(context, 0))), total = 0;
  int part = whole ? 0 : job.rank;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const int64_t* offsets = job.controls[rank]->channels[channel].slots[number % kSlots].offsets;
    total += offsets[part + 1] - offsets[part];
  }
  Tensor received = call.output(0, TF_ExpectedOutputDataType(context, 0), {total / width});
  Tensor counts = call.output(1, TF_INT32, {job.ranks});
  if (!call.ok()) return;
  char* to = received.data<char>();
  for (int rank = 0; rank < job.ranks; ++rank) {
    const int64_t* offsets = job.controls[rank]->channels[channel].slots[number % kSlots].offsets;
    int64_t bytes = offsets[part + 1] - offsets[part];
    memcpy(to, memories[rank] + offsets[part], bytes);
    to += bytes;
    counts.data<int32_t>()[rank] = static_cast<int32_t>(bytes / width);
  }
  publish(job.controls[job.rank]->channels[channel].collected, number);
}

FOR_EACH_PROCESSOR
void add(float* __restrict sum, const float* __restrict part, int64_t size) {
  for (int64_t i = 0; i < size; ++i) sum[i] += part[i];
}

// Adds in rank order, so that all ranks have the same bits.
void collect_sum(void* attributes, TF_OpKernelContext* context) {
  constexpr int64_t kBlock = 8192;  // Floats of the sum that stay in the first-level cache during the additions.
  Call call(context);
  int channel = static_cast<Attributes*>(attributes)->channel;
  char* memories[kMaxRanks];
  Tensor posted = call.input(0);
  if (!call.ok()) return;
  uint32_t number = static_cast<uint32_t>(*posted.data<int64_t>());
  if (!arrived(call, channel, number, memories)) return;
  int64_t size = job.controls[job.rank]->channels[channel].slots[number % kSlots].offsets[1] / sizeof(float);
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (job.controls[rank]->channels[channel].slots[number % kSlots].offsets[1] / int64_t(sizeof(float)) != size) {
      return call.fail(TF_INVALID_ARGUMENT, "ranks have posted vectors of different lengths");
    }
  }
  Tensor sum = call.output(0, TF_FLOAT, {size});
  if (!call.ok()) return;
  for (int64_t start = 0; start < size; start += kBlock) {
    int64_t length = std::min(kBlock, size - start);
    memcpy(sum.data<float>() + start, reinterpret_cast<float*>(memories[0]) + start, length * sizeof(float));
    for (int rank = 1; rank < job.ranks; ++rank) {
      add(sum.data<float>() + start, reinterpret_cast<float*>(memories[rank]) + start, length);
    }
  }
  publish(job.controls[job.rank]->channels[channel].collected, number);
}

#define TYPES "T: {float, double, int64, int32, uint8}"
[[maybe_unused]] const bool registered =
    Operation("SangamPost").input("data: T").input("counts: int32").output("number: int64")
        .attribute("channel: int").attribute(TYPES).stateful().kernel(create, post, destroy) &&
    Operation("SangamCollectParts").input("number: int64").output("received: T").output("counts: int32")
        .attribute("channel: int").attribute(TYPES).stateful().kernel(create, collect_parts<false>, destroy) &&
    Operation("SangamCollectAll").input("number: int64").output("received: T").output("counts: int32")
        .attribute("channel: int").attribute(TYPES).stateful().kernel(create, collect_parts<true>, destroy) &&
    Operation("SangamCollectSum").input("number: int64").output("sum: float").attribute("channel: int").stateful()
        .kernel(create, collect_sum, destroy);

}  // namespace
}  // namespace sangam

// Called from Python by ctypes.
#pragma GCC visibility push(default)
extern "C" {

// Creates this process's control block; returns its file, or -errno.
int sangam_open() {
  using namespace sangam;
  job = Job{};
  job.control_file = made_file(sizeof(Control));
  if (job.control_file < 0) return -errno;
  auto* control = static_cast<Control*>(mapped(job.control_file, sizeof(Control)));
  if (control == nullptr) return -errno;
  control->format = kFormat;
  munmap(control, sizeof(Control));
  return job.control_file;
}

// Joins the ranks' control blocks, given by process and file in rank order; returns the first rank with an unreadable
// block, or -1.
int sangam_join(int rank, int ranks, const int* processes, const int* files) {
  using namespace sangam;
  if (ranks > kMaxRanks) return kMaxRanks;
  for (int other = 0; other < ranks; ++other) {
    int file = opened(processes[other], files[other]);
    if (file < 0) return other;
    auto* control = static_cast<Control*>(mapped(file, sizeof(Control)));
    close(file);
    if (control == nullptr || control->format != kFormat) return other;
    job.processes[other] = processes[other];
    job.watches[other] = static_cast<int>(syscall(SYS_pidfd_open, processes[other], 0));
    job.controls[other] = control;
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  // With fewer cores than ranks, a rank could spin on the core that it waits for.
  job.spins = sysconf(_SC_NPROCESSORS_ONLN) >= ranks ? kSpins : 0;
  job.rank = rank;
  job.ranks = ranks;
  return -1;
}

// Leaves the job, after the others have read this rank's posts; ranks that wait for more posts fail.
void sangam_leave() {
  using namespace sangam;
  if (job.ranks == 0) return;
  Control* own = job.controls[job.rank];
  int looks = 0;
  for (int index = 0; index < kChannels; ++index) {
    uint32_t posted = own->channels[index].posted.load(std::memory_order_relaxed);
    for (int rank = 0; rank < job.ranks; ++rank) {
      std::atomic<uint32_t>& collected = job.controls[rank]->channels[index].collected;
      for (uint32_t read = collected.load(); rank != job.rank && read != posted && !has_ended(rank) && looks < kLooks;
           read = collected.load(), ++looks) {
        sleep_while(collected, read);
      }
    }
  }
  own->has_left.store(1, std::memory_order_release);
  for (Channel& channel : own->channels) {
    syscall(SYS_futex, &channel.posted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    syscall(SYS_futex, &channel.collected, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    for (auto& slots : job.mappings[rank]) {
      for (Mapping& mapping : slots) {
        if (mapping.memory != nullptr) munmap(mapping.memory, mapping.capacity);
      }
    }
  }
  for (Channel& channel : own->channels) {
    for (Slot& slot : channel.slots) {
      if (slot.serial != 0) close(slot.file);
    }
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    munmap(job.controls[rank], sizeof(Control));
    if (job.watches[rank] >= 0) close(job.watches[rank]);
  }
  close(job.control_file);
  job = Job{};
}

}  // extern "C"
#pragma GCC visibility pop
