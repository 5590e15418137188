// The input of a model: numbers and embeddings side by side, gathered and rounded in one pass over memory.
#include <algorithm>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

// One part of each example's input: its own numbers, or the table rows of its features.
struct Part {
  float* numbers;        // [B, width], or the table: [u, dim].
  const int32_t* index;  // [B, features]; null if examples have their own numbers.
  int64_t features, dim;
  int64_t width() const { return index == nullptr ? dim : features * dim; }
};

template <typename N>
struct join_arguments {
  const Part* parts;
  int64_t num_parts, batch;
  N* x;
};

template <typename N>
ALWAYS_INLINE inline void join_of(join_arguments<N> a) {
  constexpr int64_t kAhead = 4;  // Examples to prefetch ahead: their rows are scattered in memory.
  N* __restrict to = a.x;
  for (int64_t b = 0; b < a.batch; ++b)
    for (const Part* part = a.parts; part < a.parts + a.num_parts; ++part) {
      if (part->index == nullptr) {
        const float* __restrict from = part->numbers + b * part->dim;
#pragma omp simd
        for (int64_t d = 0; d < part->dim; ++d) to[d] = narrow<N>(from[d]);
        to += part->dim;
        continue;
      }
      const int32_t* index = part->index + b * part->features;
      if (b + kAhead < a.batch)
        for (int64_t s = 0; s < part->features; ++s)
          __builtin_prefetch(part->numbers + index[kAhead * part->features + s] * part->dim);
      for (int64_t s = 0; s < part->features; ++s, to += part->dim) {
        const float* __restrict from = part->numbers + index[s] * part->dim;
#pragma omp simd
        for (int64_t d = 0; d < part->dim; ++d) to[d] = narrow<N>(from[d]);
      }
    }
}
FOR_BOTH(join)

template <typename N>
struct share_out_arguments {
  const Part* parts;
  int64_t num_parts, batch;
  const N* of_x;
};

// Distributes an example's gradient to its own numbers, and adds it to the rows that it has read.
template <typename N>
ALWAYS_INLINE inline void share_out_of(share_out_arguments<N> a) {
  const N* __restrict from = a.of_x;
  for (int64_t b = 0; b < a.batch; ++b)
    for (const Part* part = a.parts; part < a.parts + a.num_parts; ++part) {
      if (part->index == nullptr) {
        float* __restrict to = part->numbers + b * part->dim;
#pragma omp simd
        for (int64_t d = 0; d < part->dim; ++d) to[d] = wide(from[d]);
        from += part->dim;
        continue;
      }
      const int32_t* index = part->index + b * part->features;
      for (int64_t s = 0; s < part->features; ++s, from += part->dim) {
        float* __restrict to = part->numbers + index[s] * part->dim;
#pragma omp simd
        for (int64_t d = 0; d < part->dim; ++d) to[d] += wide(from[d]);
      }
    }
}
FOR_BOTH(share_out)

struct Inputs {
  std::vector<int32_t> features;  // Number of an example's features that each part gathers; 0: own numbers.
  int gathered = 0;               // Number of parts with an index.
  TF_DataType numbers = TF_FLOAT;
};

void* made(TF_OpKernelConstruction* construction) {
  auto* of = new Inputs{int_attributes(construction, "FEATURES")};
  of->gathered = static_cast<int>(of->features.size() - std::count(of->features.begin(), of->features.end(), 0));
  of->numbers = type_attribute(construction, "N");
  return of;
}

void destroy(void* state) { delete static_cast<Inputs*>(state); }

// Returns the number of examples; -1, and the step fails, if parts differ in it or an index is out of range.
int64_t find_parts(Call& call, const Inputs& of, const std::vector<Tensor>& shapes, const std::vector<Tensor>& numbers,
                   const std::vector<Tensor>& indexes, std::vector<Part>& parts) {
  int64_t batch = -1;
  size_t gathered = 0;
  for (size_t p = 0; p < of.features.size(); ++p) {
    int64_t examples = shapes[p].dim(0);
    parts.push_back({numbers[p].data<float>(), nullptr, of.features[p], shapes[p].dim(1)});
    if (of.features[p] > 0) {
      const Tensor& index = indexes[gathered++];
      const auto *begin = index.data<int32_t>(), *end = begin + index.size();
      parts.back().index = begin;
      if (std::any_of(begin, end, [rows = examples](int32_t row) { return row < 0 || row >= rows; })) {
        call.fail(TF_INVALID_ARGUMENT, "inputs: indexes are not all in [0, " + std::to_string(examples) + ")");
        return -1;
      }
      examples = index.size() / of.features[p];
    }
    if (p > 0 && examples != batch) {
      call.fail(TF_INVALID_ARGUMENT,
                "inputs: parts of " + std::to_string(batch) + " and of " + std::to_string(examples) + " examples");
      return -1;
    }
    batch = examples;
  }
  return batch;
}

void join_kernel(void* state, TF_OpKernelContext* context) {
  Call call(context);
  const Inputs& of = *static_cast<Inputs*>(state);
  int count = static_cast<int>(of.features.size());
  std::vector<Tensor> numbers = inputs(call, 0, count), indexes = inputs(call, count, of.gathered);
  if (!call.ok()) return;
  std::vector<Part> parts;
  int64_t batch = find_parts(call, of, numbers, numbers, indexes, parts), width = 0;
  if (batch < 0) return;
  for (const Part& part : parts) width += part.width();
  Tensor x = call.output(0, of.numbers, {batch, width});
  if (!call.ok()) return;
  if (of.numbers == TF_FLOAT)
    join(join_arguments<float>{parts.data(), count, batch, x.data<float>()});
  else
    join(join_arguments<Half>{parts.data(), count, batch, x.data<Half>()});
}

void share_out_kernel(void* state, TF_OpKernelContext* context) {
  Call call(context);
  const Inputs& of = *static_cast<Inputs*>(state);
  int count = static_cast<int>(of.features.size());
  Tensor of_x = call.input(0);
  std::vector<Tensor> numbers = inputs(call, 1, count), indexes = inputs(call, 1 + count, of.gathered), gradients;
  if (!call.ok()) return;
  for (int p = 0; p < count && call.ok(); ++p) {
    gradients.push_back(call.output(p, TF_FLOAT, {numbers[p].dim(0), numbers[p].dim(1)}));
    if (call.ok() && of.features[p] > 0) std::memset(gradients[p].data<float>(), 0, gradients[p].bytes());
  }
  if (!call.ok()) return;
  std::vector<Part> parts;
  int64_t batch = find_parts(call, of, numbers, gradients, indexes, parts);
  if (batch < 0) return;
  if (of.numbers == TF_FLOAT)
    share_out(share_out_arguments<float>{parts.data(), count, batch, of_x.data<float>()});
  else
    share_out(share_out_arguments<Half>{parts.data(), count, batch, of_x.data<Half>()});
}

// P parts, G of them with an index.
Operation& input_attributes(Operation& operation) {
  return operation.attribute(NUMBERS).attribute("P: int >= 1").attribute("G: int >= 0").attribute("FEATURES: list(int)");
}

[[maybe_unused]] const bool registered =
    input_attributes(Operation("SangamInputs").input("parts: P * float").input("indexes: G * int32").output("x: N"))
        .kernel(made, join_kernel, destroy) &&
    input_attributes(Operation("SangamInputsGradient").input("of_x: N").input("parts: P * float")
                         .input("indexes: G * int32").output("of_parts: P * float"))
        .kernel(made, share_out_kernel, destroy);

}  // namespace
}  // namespace sangam
