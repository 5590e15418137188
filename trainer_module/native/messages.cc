// The operations that send and receive messages between ranks. `Post` returns a message's number and does not wait for
// its delivery; `Collect` waits until all ranks have posted that number.
#include "trainer_module/native/messages.h"

#include <algorithm>

namespace sangam {

PER_PROCESS Messages* joined = nullptr;
PER_PROCESS std::atomic<int64_t> waited_ns{0};

namespace {

struct Attributes {
  int32_t channel;
  explicit Attributes(TF_OpKernelConstruction* construction) : channel(int_attribute(construction, "channel")) {
    if (channel < 0 || channel >= kChannels) refuse("channel", "unknown", channel, "channels are below ", kChannels);
  }
};

Messages& of_process() {
  if (joined == nullptr) fail(TF_FAILED_PRECONDITION, "this process has joined no job");
  return *joined;
}

void post(const Attributes& attributes, Call& call) {
  Messages& messages = of_process();
  Tensor data = call.input(0, "data", {kAny}), counts = call.input(1, "counts", {at_least(1)}),
         number = call.output(0, TF_INT64, {});
  int64_t elements = data.size(), width = elements > 0 ? data.bytes() / elements : 1, sum = 0;
  const int32_t* count = counts.data<int32_t>();
  if (counts.size() > 1) check_shape(counts, "counts", {messages.ranks});
  std::vector<int64_t> ends;
  for (int64_t part = 0; part < counts.size(); ++part) {
    if (count[part] < 0) refuse("counts", "negative", count[part], "at least ", 0);
    ends.push_back((sum += count[part]) * width);
  }
  if (sum != elements) refuse("counts", "parts do not add up to data", sum, "needs ", elements);
  *number.data<int64_t>() = messages.post(attributes.channel, std::move(data), ends);
}

// Returns all ranks' parts for this rank, one after another.
void collect(const Attributes& attributes, Call& call) {
  Messages& messages = of_process();
  TF_DataType type = call.type_of_output(0);
  int64_t number = *call.input(0, "number", {}).data<int64_t>(), total = 0;
  int64_t width = static_cast<int64_t>(TF_DataTypeSize(type));
  std::vector<Part> parts = messages.arrived(attributes.channel, number, type);
  for (const Part& part : parts) total += part.bytes;
  Tensor received = call.output(0, type, {total / width}), counts = call.output(1, TF_INT32, {messages.ranks});
  char* to = received.data<char>();
  for (int rank = 0; rank < messages.ranks; to += parts[rank++].bytes) {
    if (parts[rank].bytes > 0) memcpy(to, parts[rank].memory, parts[rank].bytes);
    counts.data<int32_t>()[rank] = static_cast<int32_t>(parts[rank].bytes / width);
  }
  messages.release(attributes.channel, static_cast<uint32_t>(number));
}

FOR_EACH_PROCESSOR
void add(float* __restrict sum, const float* __restrict part, int64_t size) {
  for (int64_t i = 0; i < size; ++i) sum[i] += part[i];
}

// Adds the ranks' parts for this rank in rank order, so that all ranks have the same bits.
void collect_sum(const Attributes& attributes, Call& call) {
  constexpr int64_t kBlock = 8192;  // Floats of the sum that stay in the first-level cache during the additions.
  Messages& messages = of_process();
  int64_t number = *call.input(0, "number", {}).data<int64_t>();
  std::vector<Part> parts = messages.arrived(attributes.channel, number, TF_FLOAT);
  for (int rank = 1; rank < messages.ranks; ++rank)
    if (parts[rank].bytes != parts[0].bytes)
      refuse("rank " + std::to_string(rank), "a vector of another length, in bytes", parts[rank].bytes, "rank 0 has ",
             parts[0].bytes);
  int64_t size = parts[0].bytes / static_cast<int64_t>(sizeof(float));
  Tensor sum = call.output(0, TF_FLOAT, {size});
  for (int64_t start = 0; start < size; start += kBlock) {
    int64_t length = std::min(kBlock, size - start);
    float* to = sum.data<float>() + start;
    memcpy(to, reinterpret_cast<const float*>(parts[0].memory) + start, length * sizeof(float));
    for (int rank = 1; rank < messages.ranks; ++rank)
      add(to, reinterpret_cast<const float*>(parts[rank].memory) + start, length);
  }
  messages.release(attributes.channel, static_cast<uint32_t>(number));
}

#define TYPES "T: {float, double, int64, int32, uint8}"
[[maybe_unused]] const bool registered =
    Operation("SangamPost").input("data: T").input("counts: int32").output("number: int64")
        .attribute("channel: int").attribute(TYPES).stateful().kernel<Attributes, post>() &&
    Operation("SangamCollect").input("number: int64").output("received: T").output("counts: int32")
        .attribute("channel: int").attribute(TYPES).stateful().kernel<Attributes, collect>() &&
    Operation("SangamCollectSum").input("number: int64").output("sum: float").attribute("channel: int").stateful()
        .kernel<Attributes, collect_sum>();

}  // namespace
}  // namespace sangam

// Called from Python by ctypes.
#pragma GCC visibility push(default)
extern "C" {

// Returns the nanoseconds that this process has waited for messages of other ranks.
int64_t sangam_waited_ns() noexcept { return sangam::waited_ns.load(std::memory_order_relaxed); }

// Leaves the job, after the others have what this rank has posted; ranks that wait for more fail.
void sangam_leave() noexcept { delete std::exchange(sangam::joined, nullptr); }

}  // extern "C"
#pragma GCC visibility pop
