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
std::atomic<int64_t> waited_ns{0};  // Time that this process has waited for other ranks.

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

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

bool has_reached(const std::atomic<uint32_t>& word, uint32_t number) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - number) >= 0;
}

// Waits until a rank's counter reaches a number.
void wait_for(int rank, std::atomic<uint32_t>& word, uint32_t number) {
  if (has_reached(word, number)) return;
  int64_t started = now_ns();
  for (int spin = 0; spin < job.spins && !has_reached(word, number); ++spin) _mm_pause();
  for (;;) {
    uint32_t value = word.load(std::memory_order_acquire);
    if (static_cast<int32_t>(value - number) >= 0) break;
    if (has_ended(rank)) fail(TF_UNAVAILABLE, "rank " + std::to_string(rank) + " has left the job");
    sleep_while(word, value);
  }
  waited_ns.fetch_add(now_ns() - started, std::memory_order_relaxed);
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
  explicit Attributes(TF_OpKernelConstruction* construction) : channel(int_attribute(construction, "channel")) {
    if (channel < 0 || channel >= kChannels) refuse("channel", "unknown", channel, "channels are below ", kChannels);
  }
};

// This rank's end of a channel.
Channel& own_channel(const Attributes& attributes) {
  if (job.ranks == 0) fail(TF_FAILED_PRECONDITION, "this process has joined no job of shared memory");
  return job.controls[job.rank]->channels[attributes.channel];
}

void post(const Attributes& attributes, Call& call) {
  Channel& channel = own_channel(attributes);
  Tensor data = call.input(0, "data", {kAny}), counts = call.input(1, "counts", {at_least(1)}),
         number = call.output(0, TF_INT64, {});
  int64_t parts = counts.size(), elements = data.size(), width = elements > 0 ? data.bytes() / elements : 1, sum = 0;
  const int32_t* count = counts.data<int32_t>();
  if (parts > 1) check_shape(counts, "counts", {job.ranks});
  for (int64_t part = 0; part < parts; sum += count[part++])
    if (count[part] < 0) refuse("counts", "negative", count[part], "at least ", 0);
  if (sum != elements) refuse("counts", "parts do not add up to data", sum, "needs ", elements);
  uint32_t next = channel.posted.load(std::memory_order_relaxed) + 1;
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (rank == job.rank) continue;
    wait_for(rank, job.controls[rank]->channels[attributes.channel].collected, next - kSlots);
  }
  char* memory = room_for(attributes.channel, next % kSlots, data.bytes());
  if (memory == nullptr) fail(TF_RESOURCE_EXHAUSTED, "no shared memory: " + std::string(strerror(errno)));
  memcpy(memory, data.data<char>(), data.bytes());
  Slot& slot = channel.slots[next % kSlots];
  slot.offsets[0] = 0;
  for (int64_t part = 0; part < parts; ++part) slot.offsets[part + 1] = slot.offsets[part] + count[part] * width;
  *number.data<int64_t>() = next;
  publish(channel.posted, next);
}

// A part of a rank's message.
struct Part {
  const char* memory;
  int64_t bytes;
};

// Waits for all ranks' messages of the number in the first input; returns one part of each.
std::vector<Part> arrived(Call& call, const Attributes& attributes, int part, int64_t width, uint32_t& number) {
  Channel& own = own_channel(attributes);
  uint32_t posted = own.posted.load(std::memory_order_relaxed);
  int64_t given = *call.input(0, "number", {}).data<int64_t>();
  number = static_cast<uint32_t>(given);
  if (number != given || posted - number >= kSlots || own.slots[number % kSlots].serial == 0)
    refuse("number", "of no message under way", given, "the last one is ", posted);
  std::vector<Part> found;
  for (int rank = 0; rank < job.ranks; ++rank) {
    wait_for(rank, job.controls[rank]->channels[attributes.channel].posted, number);
    const char* memory = memory_of(rank, attributes.channel, number % kSlots);
    if (memory == nullptr) {
      fail(TF_UNAVAILABLE, "rank " + std::to_string(rank) + ": its memory cannot be read: " + strerror(errno));
    }
    const int64_t* offsets = job.controls[rank]->channels[attributes.channel].slots[number % kSlots].offsets;
    int64_t begin = offsets[part], bytes = offsets[part + 1] - begin;
    int64_t capacity = job.mappings[rank][attributes.channel][number % kSlots].capacity;
    if (begin < 0 || bytes < 0 || bytes > capacity - begin || bytes % width != 0)
      refuse("rank " + std::to_string(rank), "its message has another type", bytes, "bytes are a multiple of ", width);
    found.push_back({memory + begin, bytes});
  }
  return found;
}

// Reads the parts for this rank, or with `whole` all posted parts.
template <bool whole>
void collect_parts(const Attributes& attributes, Call& call) {
  TF_DataType type = call.type_of_output(0);
  int64_t width = static_cast<int64_t>(TF_DataTypeSize(type)), total = 0;
  uint32_t number = 0;
  std::vector<Part> parts = arrived(call, attributes, whole ? 0 : job.rank, width, number);
  for (const Part& part : parts) total += part.bytes;
  Tensor received = call.output(0, type, {total / width}), counts = call.output(1, TF_INT32, {job.ranks});
  char* to = received.data<char>();
  for (int rank = 0; rank < job.ranks; to += parts[rank++].bytes) {
    memcpy(to, parts[rank].memory, parts[rank].bytes);
    counts.data<int32_t>()[rank] = static_cast<int32_t>(parts[rank].bytes / width);
  }
  publish(own_channel(attributes).collected, number);
}

FOR_EACH_PROCESSOR
void add(float* __restrict sum, const float* __restrict part, int64_t size) {
  for (int64_t i = 0; i < size; ++i) sum[i] += part[i];
}

// Adds in rank order, so that all ranks have the same bits.
void collect_sum(const Attributes& attributes, Call& call) {
  constexpr int64_t kBlock = 8192;  // Floats of the sum that stay in the first-level cache during the additions.
  uint32_t number = 0;
  std::vector<Part> parts = arrived(call, attributes, 0, sizeof(float), number);
  for (int rank = 1; rank < job.ranks; ++rank)
    if (parts[rank].bytes != parts[0].bytes)
      refuse("rank " + std::to_string(rank), "a vector of another length, in bytes", parts[rank].bytes, "rank 0 has ",
             parts[0].bytes);
  int64_t size = parts[0].bytes / static_cast<int64_t>(sizeof(float));
  Tensor sum = call.output(0, TF_FLOAT, {size});
  for (int64_t start = 0; start < size; start += kBlock) {
    int64_t length = std::min(kBlock, size - start);
    float* to = sum.data<float>() + start;
    memcpy(to, reinterpret_cast<const float*>(parts[0].memory) + start, length * sizeof(float));
    for (int rank = 1; rank < job.ranks; ++rank)
      add(to, reinterpret_cast<const float*>(parts[rank].memory) + start, length);
  }
  publish(own_channel(attributes).collected, number);
}

#define TYPES "T: {float, double, int64, int32, uint8}"
[[maybe_unused]] const bool registered =
    Operation("SangamPost").input("data: T").input("counts: int32").output("number: int64")
        .attribute("channel: int").attribute(TYPES).stateful().kernel<Attributes, post>() &&
    Operation("SangamCollectParts").input("number: int64").output("received: T").output("counts: int32")
        .attribute("channel: int").attribute(TYPES).stateful().kernel<Attributes, collect_parts<false>>() &&
    Operation("SangamCollectAll").input("number: int64").output("received: T").output("counts: int32")
        .attribute("channel: int").attribute(TYPES).stateful().kernel<Attributes, collect_parts<true>>() &&
    Operation("SangamCollectSum").input("number: int64").output("sum: float").attribute("channel: int").stateful()
        .kernel<Attributes, collect_sum>();

}  // namespace
}  // namespace sangam

// Called from Python by ctypes.
#pragma GCC visibility push(default)
extern "C" {

// Creates this process's control block; returns its file, or -errno.
int sangam_open() noexcept {
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
// block, or -1. It returns 64 if there cannot be such a rank. `cores` are as many as the ranks may keep busy.
int sangam_join(int rank, int ranks, const int* processes, const int* files, int cores) noexcept {
  using namespace sangam;
  cpu_set_t usable;  // By any of the ranks.
  CPU_ZERO(&usable);
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) return kMaxRanks;
  for (int other = 0; other < ranks; ++other) {
    int file = opened(processes[other], files[other]);
    if (file < 0) return other;
    auto* control = static_cast<Control*>(mapped(file, sizeof(Control)));
    close(file);
    if (control == nullptr || control->format != kFormat) return other;
    job.processes[other] = processes[other];
    job.watches[other] = static_cast<int>(syscall(SYS_pidfd_open, processes[other], 0));
    job.controls[other] = control;
    cpu_set_t of_rank;
    CPU_ZERO(&of_rank);
    sched_getaffinity(processes[other], sizeof of_rank, &of_rank);
    CPU_OR(&usable, &usable, &of_rank);
  }
  // With fewer cores than ranks, a rank could spin on the core that it waits for.
  job.spins = std::min(CPU_COUNT(&usable), cores) >= ranks ? kSpins : 0;
  job.rank = rank;
  job.ranks = ranks;
  return -1;
}

// Returns the nanoseconds that this process has waited for messages of other ranks.
int64_t sangam_waited_ns() noexcept { return sangam::waited_ns.load(std::memory_order_relaxed); }

// Leaves the job, after the others have read this rank's posts; ranks that wait for more posts fail.
void sangam_leave() noexcept {
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
