// Parts of the dense layers that TensorFlow computes in several passes over memory, in one. For one thread.
#include <vector>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

// Suffixes as in Python: B batch, E experts, T tasks, H width of an expert's output.

void* no_state(TF_OpKernelConstruction*) { return nullptr; }
void none_to_destroy(void*) {}

struct Sizes {
  int32_t experts, tasks;
};

void* sizes(TF_OpKernelConstruction* construction) {
  return new Sizes{int_attribute(construction, "E"), int_attribute(construction, "T")};
}

void destroy_sizes(void* state) { delete static_cast<Sizes*>(state); }

std::vector<const float*> pointers(std::vector<Tensor>& tensors) {
  std::vector<const float*> found;
  for (Tensor& tensor : tensors) found.push_back(tensor.data<float>());
  return found;
}

FOR_EACH_PROCESSOR
void mix(const float* gates_BTE, const std::vector<const float*>& experts, const std::vector<float*>& mixed,
         int64_t batch, int64_t width) {
  size_t num_experts = experts.size(), num_tasks = mixed.size();
  for (int64_t b = 0; b < batch; ++b) {
    const float* gates = gates_BTE + b * num_tasks * num_experts;
    for (size_t t = 0; t < num_tasks; ++t, gates += num_experts) {
      float* __restrict out = mixed[t] + b * width;
      const float* __restrict first = experts[0] + b * width;
#pragma omp simd
      for (int64_t h = 0; h < width; ++h) out[h] = gates[0] * first[h];
      for (size_t e = 1; e < num_experts; ++e) {
        const float* __restrict x = experts[e] + b * width;
#pragma omp simd
        for (int64_t h = 0; h < width; ++h) out[h] += gates[e] * x[h];
      }
    }
  }
}

void mix_kernel(void* state, TF_OpKernelContext* context) {
  auto [num_experts, num_tasks] = *static_cast<Sizes*>(state);
  Call call(context);
  Tensor gates = call.input(0);
  std::vector<Tensor> experts, outputs;
  for (int e = 0; e < num_experts; ++e) experts.push_back(call.input(1 + e));
  if (!call.ok()) return;
  int64_t batch = experts[0].dim(0), width = experts[0].dim(1);
  std::vector<float*> mixed;
  for (int t = 0; t < num_tasks; ++t) {
    outputs.push_back(call.output(t, TF_FLOAT, {batch, width}));
    if (!call.ok()) return;
    mixed.push_back(outputs.back().data<float>());
  }
  mix(gates.data<float>(), pointers(experts), mixed, batch, width);
}

FOR_EACH_PROCESSOR
void mix_gradient(const float* gates_BTE, const std::vector<const float*>& experts,
                  const std::vector<const float*>& gradients, float* of_gates_BTE,
                  const std::vector<float*>& of_experts, int64_t batch, int64_t width) {
  size_t num_experts = experts.size(), num_tasks = gradients.size();
  for (int64_t b = 0; b < batch; ++b) {
    const float* gates = gates_BTE + b * num_tasks * num_experts;
    float* of_gates = of_gates_BTE + b * num_tasks * num_experts;
    for (size_t e = 0; e < num_experts; ++e) {
      const float* __restrict x = experts[e] + b * width;
      float* __restrict of_x = of_experts[e] + b * width;
      for (size_t t = 0; t < num_tasks; ++t) {
        const float* __restrict g = gradients[t] + b * width;
        float gate = gates[t * num_experts + e], product = 0.0f;
#pragma omp simd reduction(+ : product)
        for (int64_t h = 0; h < width; ++h) product += g[h] * x[h];
        of_gates[t * num_experts + e] = product;
        if (t == 0) {
#pragma omp simd
          for (int64_t h = 0; h < width; ++h) of_x[h] = gate * g[h];
        } else {
#pragma omp simd
          for (int64_t h = 0; h < width; ++h) of_x[h] += gate * g[h];
        }
      }
    }
  }
}

void mix_gradient_kernel(void* state, TF_OpKernelContext* context) {
  auto [num_experts, num_tasks] = *static_cast<Sizes*>(state);
  Call call(context);
  Tensor gates = call.input(0);
  std::vector<Tensor> experts, gradients, outputs;
  for (int e = 0; e < num_experts; ++e) experts.push_back(call.input(1 + e));
  for (int t = 0; t < num_tasks; ++t) gradients.push_back(call.input(1 + num_experts + t));
  if (!call.ok()) return;
  int64_t batch = experts[0].dim(0), width = experts[0].dim(1);
  Tensor of_gates = call.output(0, TF_FLOAT, {batch, num_tasks, num_experts});
  std::vector<float*> of_experts;
  for (int e = 0; e < num_experts; ++e) {
    outputs.push_back(call.output(1 + e, TF_FLOAT, {batch, width}));
    if (!call.ok()) return;
    of_experts.push_back(outputs.back().data<float>());
  }
  mix_gradient(gates.data<float>(), pointers(experts), pointers(gradients), of_gates.data<float>(), of_experts, batch,
               width);
}

// g where the relu has let its input through, networks side by side, and its sum over the batch.
FOR_EACH_PROCESSOR
void relu_gradient(const std::vector<const float*>& outputs, const std::vector<const float*>& gradients,
                   float* of_inputs, float* of_bias, int64_t batch, int64_t width) {
  int64_t row = width * outputs.size();
  std::memset(of_bias, 0, row * sizeof(float));
  for (int64_t b = 0; b < batch; ++b) {
    for (size_t n = 0; n < outputs.size(); ++n) {
      const float* __restrict y = outputs[n] + b * width;
      const float* __restrict g = gradients[n] + b * width;
      float* __restrict to = of_inputs + b * row + n * width;
      float* __restrict sum = of_bias + n * width;
#pragma omp simd
      for (int64_t h = 0; h < width; ++h) {
        float gradient = g[h], kept = y[h] > 0.0f ? gradient : 0.0f;
        to[h] = kept;
        sum[h] += kept;
      }
    }
  }
}

void relu_gradient_kernel(void* state, TF_OpKernelContext* context) {
  int num_networks = static_cast<Sizes*>(state)->experts;
  Call call(context);
  std::vector<Tensor> outputs, gradients;
  for (int n = 0; n < num_networks; ++n) outputs.push_back(call.input(n));
  for (int n = 0; n < num_networks; ++n) gradients.push_back(call.input(num_networks + n));
  if (!call.ok()) return;
  int64_t batch = outputs[0].dim(0), width = outputs[0].dim(1);
  Tensor of_inputs = call.output(0, TF_FLOAT, {batch, num_networks * width});
  Tensor of_bias = call.output(1, TF_FLOAT, {num_networks * width});
  if (!call.ok()) return;
  relu_gradient(pointers(outputs), pointers(gradients), of_inputs.data<float>(), of_bias.data<float>(), batch, width);
}

// The formula, and the order of its operations, of `embedding.row_optimizers.adam`; rows are [w | m | v | anything].
FOR_EACH_PROCESSOR
void adam(const float* rows, const float* gradients, float* moved, int64_t count, int64_t width, int64_t dim,
          const float* numbers) {
  auto [corrected, beta1, rest1, beta2, rest2, epsilon] = *reinterpret_cast<const float(*)[6]>(numbers);
  for (int64_t row = 0; row < count; ++row) {
    const float* __restrict w = rows + row * width;
    const float* __restrict g = gradients + row * dim;
    float* __restrict to = moved + row * 3 * dim;
#pragma omp simd
    for (int64_t d = 0; d < dim; ++d) {
      float m = beta1 * w[dim + d] + rest1 * g[d];
      float v = beta2 * w[2 * dim + d] + rest2 * (g[d] * g[d]);
      to[d] = w[d] - corrected * m / (__builtin_sqrtf(v) + epsilon);
      to[dim + d] = m;
      to[2 * dim + d] = v;
    }
  }
}

void adam_kernel(void*, TF_OpKernelContext* context) {
  Call call(context);
  Tensor rows = call.input(0), gradients = call.input(1), numbers = call.input(2);
  if (!call.ok()) return;
  int64_t count = rows.dim(0), dim = gradients.dim(1);
  Tensor moved = call.output(0, TF_FLOAT, {count, 3 * dim});
  if (!call.ok()) return;
  adam(rows.data<float>(), gradients.data<float>(), moved.data<float>(), count, rows.dim(1), dim,
       numbers.data<float>());
}

[[maybe_unused]] const bool registered =
    Operation("SangamMix").input("gates: float").input("experts: E * float").output("mixed: T * float")
        .attribute("E: int >= 1").attribute("T: int >= 1").kernel(sizes, mix_kernel, destroy_sizes) &&
    Operation("SangamMixGradient").input("gates: float").input("experts: E * float").input("gradients: T * float")
        .output("of_gates: float").output("of_experts: E * float").attribute("E: int >= 1").attribute("T: int >= 1")
        .kernel(sizes, mix_gradient_kernel, destroy_sizes) &&
    Operation("SangamReluGradient").input("outputs: E * float").input("gradients: E * float")
        .output("of_inputs: float").output("of_bias: float").attribute("E: int >= 1").attribute("T: int = 0")
        .kernel(sizes, relu_gradient_kernel, destroy_sizes) &&
    Operation("SangamAdamRows").input("rows: float").input("gradients: float").input("numbers: float")
        .output("moved: float").kernel(no_state, adam_kernel, none_to_destroy);

}  // namespace
}  // namespace sangam
