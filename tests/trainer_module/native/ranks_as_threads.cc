// The ranks of a job as threads of one process, for sanitizers: PROGRAM RANKS STEPS memory|sockets.
//
// MEMORY is shared_memory.cc, SOCKETS is sockets.cc; PER_PROCESS is thread_local. Threads map a file once, so that all of them read and write the same addresses. TensorFlow's
// C interface is a few structures here.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "trainer_module/native/kernel.h"

struct TSL_Status {  // TF_Status.
  TF_Code code = TF_OK;
  std::string message;
};
struct TF_Tensor {
  TF_DataType type;
  std::vector<int64_t> dims;
  std::shared_ptr<std::vector<char>> bytes;  // As in TensorFlow, all handles of a tensor share it.
};
struct TF_OpKernelContext {
  std::vector<TF_Tensor> inputs;
  std::map<int, TF_Tensor> outputs;
  TF_Code code = TF_OK;
  std::string error;
};
struct TF_OpKernelConstruction {
  int32_t channel;
};

extern "C" {
TF_Status* TF_NewStatus() { return new TF_Status; }
void TF_DeleteStatus(TF_Status* status) { delete status; }
void TF_SetStatus(TF_Status* status, TF_Code code, const char* message) { *status = TF_Status{code, message}; }
TF_Code TF_GetCode(const TF_Status* status) { return status->code; }
const char* TF_Message(const TF_Status* status) { return status->message.c_str(); }
size_t TF_DataTypeSize(TF_DataType type) { return type == TF_INT64 ? 8 : 4; }
void TF_DeleteTensor(TF_Tensor* tensor) { delete tensor; }
TF_DataType TF_TensorType(const TF_Tensor* tensor) { return tensor->type; }
int TF_NumDims(const TF_Tensor* tensor) { return static_cast<int>(tensor->dims.size()); }
int64_t TF_Dim(const TF_Tensor* tensor, int axis) { return tensor->dims[axis]; }
size_t TF_TensorByteSize(const TF_Tensor* tensor) { return tensor->bytes->size(); }
int64_t TF_TensorElementCount(const TF_Tensor* tensor) { return tensor->bytes->size() / TF_DataTypeSize(tensor->type); }
void* TF_TensorData(const TF_Tensor* tensor) { return tensor->bytes->data(); }
void TF_GetInput(TF_OpKernelContext* context, int index, TF_Tensor** found, TF_Status*) {
  *found = new TF_Tensor(context->inputs[index]);
}
TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context, int index, TF_DataType type, const int64_t* dims, int count,
                             size_t bytes, TF_Status*) {
  context->outputs[index] = TF_Tensor{type, {dims, dims + count}, std::make_shared<std::vector<char>>(bytes)};
  return new TF_Tensor(context->outputs[index]);
}
TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext*, int) { return TF_FLOAT; }
void TF_OpKernelContext_Failure(TF_OpKernelContext* context, TF_Status* status) {
  context->code = status->code, context->error = status->message;
}
void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction*, TF_Status*) {}
void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction* of, const char*, int32_t* value, TF_Status*) {
  *value = of->channel;
}
TF_OpDefinitionBuilder* TF_NewOpDefinitionBuilder(const char*) { return nullptr; }
void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder*, const char*) {}
void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder*, const char*) {}
void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder*, const char*) {}
void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder*, bool) {}
void TF_OpDefinitionBuilderSetShapeInferenceFunction(TF_OpDefinitionBuilder*,
                                                     void (*)(TF_ShapeInferenceContext*, TF_Status*)) {}
void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext*, TF_Status*) {}
void TF_RegisterOpDefinition(TF_OpDefinitionBuilder*, TF_Status*) {}
TF_KernelBuilder* TF_NewKernelBuilder(const char*, const char*, void* (*)(TF_OpKernelConstruction*),
                                      void (*)(void*, TF_OpKernelContext*), void (*)(void*)) { return nullptr; }
void TF_RegisterKernelBuilder(const char*, TF_KernelBuilder*, TF_Status*) {}
}

struct Shared {
  void* memory;
  int uses;
};
std::mutex mutex;
std::map<ino_t, Shared> shared;

void* map_once(void*, size_t bytes, int protection, int flags, int file, off_t) {
  std::lock_guard<std::mutex> lock(mutex);
  struct stat about;
  fstat(file, &about);
  Shared& its = shared[about.st_ino];
  if (its.uses++ == 0) its.memory = mmap(nullptr, bytes, protection, flags, file, 0);
  return its.memory;
}

int unmap_once(void* memory, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto its = shared.begin(); its != shared.end(); ++its)
    if (its->second.memory == memory && --its->second.uses == 0) {
      shared.erase(its);
      return munmap(memory, bytes);
    }
  return 0;
}

#define mmap map_once
#define munmap unmap_once
#include "trainer_module/native/messages.cc"
#include MEMORY
#include SOCKETS

namespace sangam {
namespace {

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("WRONG: %s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(3);  // Other threads go on.
}

template <typename T>
TF_Tensor tensor(TF_DataType type, const std::vector<T>& from, std::vector<int64_t> dims) {
  const char* bytes = reinterpret_cast<const char*>(from.data());
  return {type, std::move(dims), std::make_shared<std::vector<char>>(bytes, bytes + from.size() * sizeof(T))};
}

template <void (*compute)(const Attributes&, Call&)>
std::vector<char> run(Attributes& attributes, std::vector<TF_Tensor> inputs) {
  TF_OpKernelContext context{std::move(inputs), {}};
  Kernel<Attributes, compute>::run(&attributes, &context);
  expect(context.code == TF_OK, context.error);
  return *context.outputs[0].bytes;
}

template <typename T>
TF_Tensor posted(Attributes& channel, const std::vector<float>& data, const std::vector<T>& counts) {
  TF_Tensor inputs[] = {tensor(TF_FLOAT, data, {int64_t(data.size())}), tensor(TF_INT32, counts, {int64_t(counts.size())})};
  return {TF_INT64, {}, std::make_shared<std::vector<char>>(run<post>(channel, {inputs[0], inputs[1]}))};
}

// The message of a step: its size differs from step to step, and its parts from rank to rank.
int32_t length(int step, int from, int to) { return (step * 37 % 11 == 0 ? 3000 : step % 50) + 3 * from + to; }
float value(int step, int from, int to) { return static_cast<float>(step % 1000 * 100 + from * 10 + to); }

TF_Tensor send(Attributes& channel, int step, int rank, int ranks) {
  std::vector<int32_t> counts;
  std::vector<float> data;
  for (int to = 0; to < ranks; ++to) {
    counts.push_back(length(step, rank, to));
    data.insert(data.end(), counts.back(), value(step, rank, to));
  }
  return posted(channel, data, counts);
}

void receive(Attributes& channel, TF_Tensor number, int step, int rank, int ranks) {
  std::vector<char> bytes = run<collect>(channel, {std::move(number)});
  const float* next = reinterpret_cast<const float*>(bytes.data());
  for (int from = 0; from < ranks; ++from)
    for (int32_t n = 0; n < length(step, from, rank); ++n) expect(*next++ == value(step, from, rank), "a part");
}

void sum(Attributes& channel, int step, int rank, int ranks) {
  std::vector<float> data(1 + step % 300, static_cast<float>(rank + step % 100));
  TF_Tensor number = posted(channel, data, std::vector<int32_t>{static_cast<int32_t>(data.size())});
  std::vector<char> bytes = run<collect_sum>(channel, {number});
  const float* sums = reinterpret_cast<const float*>(bytes.data());
  for (size_t at = 0; at < data.size(); ++at)
    expect(sums[at] == static_cast<float>(ranks * (step % 100) + ranks * (ranks - 1) / 2), "a sum");
}

// Every message is read after the next one was posted, as a pipelined step does: both slots are in use.
void run_rank(int rank, int ranks, int steps) {
  TF_OpKernelConstruction constructions[] = {{0}, {3}};
  Attributes parts(&constructions[0]), sums(&constructions[1]);
  TF_Tensor before = send(parts, 0, rank, ranks);
  for (int step = 1; step <= steps; ++step) {
    TF_Tensor next = send(parts, step, rank, ranks);
    receive(parts, before, step - 1, rank, ranks);
    if (step % 7 == 0) sum(sums, step, rank, ranks);
    before = next;
  }
  receive(parts, before, steps, rank, ranks);
}

void out_of_memory(const Attributes&, Call&) { throw std::bad_alloc(); }
void another_error(const Attributes&, Call&) { throw std::runtime_error("another error"); }

template <void (*compute)(const Attributes&, Call&)>
void expect_failure(TF_Code code, const char* text) {
  TF_OpKernelConstruction construction{0};
  Attributes attributes(&construction);
  TF_OpKernelContext context;
  Kernel<Attributes, compute>::operation = "Operation";
  Kernel<Attributes, compute>::run(&attributes, &context);
  expect(context.code == code && context.error == text, context.error);
}

}  // namespace
}  // namespace sangam

int main(int count, char** arguments) {
  using namespace sangam;
  expect(count == 4, "needs RANKS STEPS memory|sockets");
  expect_failure<out_of_memory>(TF_RESOURCE_EXHAUSTED, "Operation: out of memory");
  expect_failure<another_error>(TF_INTERNAL, "Operation: another error");
  int ranks = std::atoi(arguments[1]), steps = std::atoi(arguments[2]);
  bool is_memory = std::string(arguments[3]) == "memory";
  std::vector<int> files(ranks), processes(ranks, getpid());
  std::vector<std::vector<int>> sockets(ranks, std::vector<int>(ranks, -1));
  for (int rank = 0; rank < ranks && !is_memory; ++rank)
    for (int other = 0; other < rank; ++other) {
      int ends[2];
      expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
      sockets[rank][other] = ends[0], sockets[other][rank] = ends[1];
    }
  std::atomic<int> opened{0}, done{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      if (is_memory) {
        files[rank] = sangam_open();
        for (++opened; opened < ranks;) sched_yield();
        expect(sangam_join(rank, ranks, processes.data(), files.data(), kMaxRanks) == -1, "a rank was not reached");
      } else {
        expect(sangam_connect(rank, ranks, sockets[rank].data()) == 0, "a rank was not connected");
      }
      run_rank(rank, ranks, steps);
      for (++done; done < ranks;) sched_yield();
      sangam_leave();
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("%d ranks, %d steps\n", ranks, steps);
}
