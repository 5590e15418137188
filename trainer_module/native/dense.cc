// Single-pass versions of dense-layer parts for which TensorFlow makes several passes over memory. Single-threaded.
// Numbers are float32 or bfloat16, computed as float32.
#include <algorithm>
#include <vector>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

// Suffixes as in Python: B batch, E experts, T tasks, H width of an expert's output.

struct Sizes {
  int32_t experts, tasks;
  explicit Sizes(TF_OpKernelConstruction* construction)
      : experts(int_attribute(construction, "E")), tasks(int_attribute(construction, "TASKS")) {}
};

struct Bins {
  int32_t bins;
  explicit Bins(TF_OpKernelConstruction* construction) : bins(int_attribute(construction, "BINS")) {}
};

template <typename N>
struct mix_arguments {
  const N* gates_BTE;
  N* const* experts;
  N* const* mixed;
  int64_t num_experts, num_tasks, batch, width;
};

template <typename N>
ALWAYS_INLINE inline void mix_of(mix_arguments<N> a) {
  const int64_t width = a.width;
  std::vector<float> sums(width);
  float* __restrict sum = sums.data();
  for (int64_t b = 0; b < a.batch; ++b) {
    const N* gates = a.gates_BTE + b * a.num_tasks * a.num_experts;
    for (int64_t t = 0; t < a.num_tasks; ++t, gates += a.num_experts) {
      for (int64_t e = 0; e < a.num_experts; ++e) {
        const N* __restrict x = a.experts[e] + b * width;
        float gate = wide(gates[e]);
        if (e == 0) {
#pragma omp simd
          for (int64_t h = 0; h < width; ++h) sum[h] = gate * wide(x[h]);
        } else {
#pragma omp simd
          for (int64_t h = 0; h < width; ++h) sum[h] += gate * wide(x[h]);
        }
      }
      N* __restrict out = a.mixed[t] + b * width;
#pragma omp simd
      for (int64_t h = 0; h < width; ++h) out[h] = narrow<N>(sum[h]);
    }
  }
}
FOR_BOTH(mix)

template <typename N>
void mix_kernel(const Sizes& sizes, Call& call) {
  Tensor gates = call.input(0, "gates", {kAny, sizes.tasks, sizes.experts});
  int64_t batch = gates.dim(0);
  std::vector<Tensor> experts = call.inputs(1, "experts", sizes.experts, batch, kAny);
  int64_t width = experts[0].dim(1);
  std::vector<Tensor> mixed = call.outputs(0, sizes.tasks, kType<N>, batch, width);
  mix(mix_arguments<N>{gates.data<N>(), pointers<N>(experts).data(), pointers<N>(mixed).data(), sizes.experts,
                       sizes.tasks, batch, width});
}

template <typename N>
struct mix_gradient_arguments {
  const N* gates_BTE;
  N* const* experts;
  N* const* gradients;
  N* of_gates_BTE;
  N* const* of_experts;
  int64_t num_experts, num_tasks, batch, width;
};

template <typename N>
ALWAYS_INLINE inline void mix_gradient_of(mix_gradient_arguments<N> a) {
  const int64_t width = a.width;
  std::vector<float> sums(width);
  float* __restrict sum = sums.data();
  for (int64_t b = 0; b < a.batch; ++b) {
    const N* gates = a.gates_BTE + b * a.num_tasks * a.num_experts;
    N* of_gates = a.of_gates_BTE + b * a.num_tasks * a.num_experts;
    for (int64_t e = 0; e < a.num_experts; ++e) {
      const N* __restrict x = a.experts[e] + b * width;
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t t = 0; t < a.num_tasks; ++t) {
        const N* __restrict g = a.gradients[t] + b * width;
        float gate = wide(gates[t * a.num_experts + e]), product = 0.0f;
#pragma omp simd reduction(+ : product)
        for (int64_t h = 0; h < width; ++h) {
          float its = wide(g[h]);
          product += its * wide(x[h]);
          sum[h] += gate * its;
        }
        of_gates[t * a.num_experts + e] = narrow<N>(product);
      }
      N* __restrict of_x = a.of_experts[e] + b * width;
#pragma omp simd
      for (int64_t h = 0; h < width; ++h) of_x[h] = narrow<N>(sum[h]);
    }
  }
}
FOR_BOTH(mix_gradient)

template <typename N>
void mix_gradient_kernel(const Sizes& sizes, Call& call) {
  Tensor gates = call.input(0, "gates", {kAny, sizes.tasks, sizes.experts});
  int64_t batch = gates.dim(0);
  std::vector<Tensor> experts = call.inputs(1, "experts", sizes.experts, batch, kAny);
  int64_t width = experts[0].dim(1);
  std::vector<Tensor> gradients = call.inputs(1 + sizes.experts, "gradients", sizes.tasks, batch, width);
  Tensor of_gates = call.output(0, kType<N>, {batch, sizes.tasks, sizes.experts});
  std::vector<Tensor> of_experts = call.outputs(1, sizes.experts, kType<N>, batch, width);
  mix_gradient(mix_gradient_arguments<N>{gates.data<N>(), pointers<N>(experts).data(), pointers<N>(gradients).data(),
                                         of_gates.data<N>(), pointers<N>(of_experts).data(), sizes.experts,
                                         sizes.tasks, batch, width});
}

// The bin of a number in bin coordinates; numbers below and above the bins belong to the first and the last.
ALWAYS_INLINE inline int64_t bin_of(float number, int64_t bins) {
  float bin = __builtin_floorf(number);
  if (!(bin > 0.0f)) return 0;  // Also for a NaN.
  return bin < static_cast<float>(bins) ? static_cast<int64_t>(bin) : bins - 1;
}

// The sum of the rows of W below a number's bin, plus the number's share of its own bin's row.
FOR_EACH_PROCESSOR
void piecewise(const float* numbers_NB, const float* w_NTD, float* out_NBD, int64_t count, int64_t batch, int64_t bins,
               int64_t dim) {
  std::vector<float> passed((bins + 1) * dim);
  for (int64_t n = 0; n < count; ++n) {
    const float* w = w_NTD + n * bins * dim;
    for (int64_t at = 0; at < bins * dim; ++at) passed[at + dim] = passed[at] + w[at];
    for (int64_t b = 0; b < batch; ++b) {
      float number = numbers_NB[n * batch + b];
      int64_t bin = bin_of(number, bins);
      float share = number - static_cast<float>(bin);
      const float* __restrict before = passed.data() + bin * dim;
      const float* __restrict own = w + bin * dim;
      float* __restrict out = out_NBD + (n * batch + b) * dim;
#pragma omp simd
      for (int64_t d = 0; d < dim; ++d) out[d] = before[d] + share * own[d];
    }
  }
}

void piecewise_kernel(const NoState&, Call& call) {
  Tensor numbers = call.input(0, "numbers", {kAny, kAny});
  int64_t count = numbers.dim(0), batch = numbers.dim(1);
  Tensor w = call.input(1, "w", {count, at_least(1), kAny});
  int64_t bins = w.dim(1), dim = w.dim(2);
  Tensor out = call.output(0, TF_FLOAT, {count, batch, dim});
  piecewise(numbers.data<float>(), w.data<float>(), out.data<float>(), count, batch, bins, dim);
}

FOR_EACH_PROCESSOR
void piecewise_gradient(const float* numbers_NB, const float* g_NBD, float* of_w_NTD, int64_t count, int64_t batch,
                        int64_t bins, int64_t dim) {
  std::vector<float> whole(bins * dim);  // Gradients of each bin's examples; all earlier bins get them in full.
  for (int64_t n = 0; n < count; ++n) {
    float* of_w = of_w_NTD + n * bins * dim;
    std::memset(of_w, 0, bins * dim * sizeof(float));
    std::fill(whole.begin(), whole.end(), 0.0f);
    for (int64_t b = 0; b < batch; ++b) {
      float number = numbers_NB[n * batch + b];
      int64_t bin = bin_of(number, bins);
      float share = number - static_cast<float>(bin);
      const float* __restrict g = g_NBD + (n * batch + b) * dim;
      float* __restrict own = of_w + bin * dim;
      float* __restrict all = whole.data() + bin * dim;
#pragma omp simd
      for (int64_t d = 0; d < dim; ++d) {
        own[d] += share * g[d];
        all[d] += g[d];
      }
    }
    for (int64_t at = (bins - 1) * dim - 1; at >= 0; --at) {
      of_w[at] += whole[at + dim];
      whole[at] += whole[at + dim];
    }
  }
}

void piecewise_gradient_kernel(const Bins& state, Call& call) {
  Tensor numbers = call.input(0, "numbers", {kAny, kAny});
  int64_t count = numbers.dim(0), batch = numbers.dim(1), bins = state.bins;
  Tensor g = call.input(1, "gradients", {count, batch, kAny});
  int64_t dim = g.dim(2);
  Tensor of_w = call.output(0, TF_FLOAT, {count, bins, dim});
  piecewise_gradient(numbers.data<float>(), g.data<float>(), of_w.data<float>(), count, batch, bins, dim);
}

[[maybe_unused]] const bool registered =
    Operation("SangamMix").input("gates: N").input("experts: E * N").output("mixed: TASKS * N").attribute(NUMBERS)
        .attribute("E: int >= 1").attribute("TASKS: int >= 1")
        .kernel<Sizes, either<Sizes, mix_kernel<float>, mix_kernel<Half>>>() &&
    Operation("SangamMixGradient").input("gates: N").input("experts: E * N").input("gradients: TASKS * N")
        .output("of_gates: N").output("of_experts: E * N").attribute(NUMBERS).attribute("E: int >= 1")
        .attribute("TASKS: int >= 1")
        .kernel<Sizes, either<Sizes, mix_gradient_kernel<float>, mix_gradient_kernel<Half>>>() &&
    Operation("SangamPiecewise").input("numbers: float").input("w: float").output("vectors: float")
        .kernel<NoState, piecewise_kernel>() &&
    Operation("SangamPiecewiseGradient").input("numbers: float").input("gradients: float").output("of_w: float")
        .attribute("BINS: int >= 1").kernel<Bins, piecewise_gradient_kernel>();

}  // namespace
}  // namespace sangam
