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
  int gathered;                   // Number of parts with an index.
  TF_DataType numbers;
  explicit Inputs(TF_OpKernelConstruction* construction)
      : features(int_attributes(construction, "FEATURES", int_attribute(construction, "P"), 0)),
        gathered(static_cast<int>(features.size() - std::count(features.begin(), features.end(), 0))),
        numbers(type_attribute(construction, "N")) {
    int32_t indexes = int_attribute(construction, "G");
    if (indexes != gathered) refuse("indexes", "one for each part with FEATURES", indexes, "needs ", gathered);
  }
};

// The parts of a call, and the inputs whose memory they point to. The first part decides the number of examples.
struct Parts {
  std::vector<Tensor> numbers, indexes;
  std::vector<Part> parts;
  int64_t batch = kAny, width = 0;

  Parts(const Inputs& of, Call& call, int first) {
    int count = static_cast<int>(of.features.size());
    for (int p = 0; p < count; ++p) {
      int64_t features = of.features[p], gathered = static_cast<int64_t>(indexes.size());
      numbers.push_back(call.input(first + p, {"parts", p}, {features > 0 ? kAny : batch, kAny}));
      const Tensor& its = numbers.back();
      parts.push_back({its.data<float>(), nullptr, features, its.dim(1)});
      if (features > 0) {
        Name name{"indexes", gathered};
        int place = first + count + static_cast<int>(gathered);
        indexes.push_back(call.input(place, name, {p == 0 ? kAny : batch * features}));
        parts.back().index = checked(indexes.back(), name, its.dim(0), features);
      }
      if (p == 0) batch = features > 0 ? indexes[0].size() / features : its.dim(0);
      width += parts.back().width();
    }
  }

 private:
  static const int32_t* checked(const Tensor& index, Name name, int64_t rows, int64_t features) {
    if (index.size() % features != 0) refuse_shape(index, name, {index.size() / features * features});
    const auto *begin = index.data<int32_t>(), *end = begin + index.size();
    const auto* wrong = std::find_if(begin, end, [rows](int32_t row) { return row < 0 || row >= rows; });
    if (wrong != end) refuse(name.whole(), "not a row", *wrong, "rows are in [0, ", rows, ")");
    return begin;
  }
};

void join_kernel(const Inputs& of, Call& call) {
  Parts its(of, call, 0);
  int64_t count = static_cast<int64_t>(its.parts.size());
  Tensor x = call.output(0, of.numbers, {its.batch, its.width});
  if (of.numbers == TF_FLOAT)
    join(join_arguments<float>{its.parts.data(), count, its.batch, x.data<float>()});
  else
    join(join_arguments<Half>{its.parts.data(), count, its.batch, x.data<Half>()});
}

void share_out_kernel(const Inputs& of, Call& call) {
  Parts its(of, call, 1);
  int64_t count = static_cast<int64_t>(its.parts.size());
  Tensor of_x = call.input(0, "of_x", {its.batch, its.width});
  std::vector<Tensor> gradients;
  for (int p = 0; p < static_cast<int>(count); ++p) {
    gradients.push_back(call.output(p, TF_FLOAT, {its.numbers[p].dim(0), its.numbers[p].dim(1)}));
    if (of.features[p] > 0) std::memset(gradients[p].data<float>(), 0, gradients[p].bytes());
    its.parts[p].numbers = gradients[p].data<float>();
  }
  if (of.numbers == TF_FLOAT)
    share_out(share_out_arguments<float>{its.parts.data(), count, its.batch, of_x.data<float>()});
  else
    share_out(share_out_arguments<Half>{its.parts.data(), count, its.batch, of_x.data<Half>()});
}

// P parts, G of them with an index.
Operation& input_attributes(Operation& operation) {
  return operation.attribute(NUMBERS).attribute("P: int >= 1").attribute("G: int >= 0").attribute("FEATURES: list(int)");
}

[[maybe_unused]] const bool registered =
    input_attributes(Operation("SangamInputs").input("parts: P * float").input("indexes: G * int32").output("x: N"))
        .kernel<Inputs, join_kernel>() &&
    input_attributes(Operation("SangamInputsGradient").input("of_x: N").input("parts: P * float")
                         .input("indexes: G * int32").output("of_parts: P * float"))
        .kernel<Inputs, share_out_kernel>();

}  // namespace
}  // namespace sangam
