// Layers that compute products, biases and relus in one pass over memory, on processors with AVX-512 or AMX: see
// `FloatProducts` and `HalfProducts`.
#include <cpuid.h>

#include "trainer_module/native/float_products.h"
#include "trainer_module/native/half_products.h"
#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

template <typename N>
using Products = std::conditional_t<sizeof(N) == sizeof(float), FloatProducts, HalfProducts>;

// The layer's shape from the operation's attributes: number, width and relu of each matrix's networks.
struct Shape {
  std::vector<Networks> matrices;
  int64_t outputs = 0;
};

void* shape(TF_OpKernelConstruction* construction) {
  std::vector<int32_t> counts = int_attributes(construction, "COUNTS"), widths = int_attributes(construction, "WIDTHS"),
                       relus = int_attributes(construction, "RELUS");
  auto* made = new Shape;
  for (size_t m = 0; m < counts.size(); ++m) {
    made->matrices.push_back({counts[m], widths[m], relus[m] != 0});
    made->outputs += counts[m];
  }
  return made;
}

void destroy_shape(void* state) { delete static_cast<Shape*>(state); }

template <typename N>
void forward(void* state, Call& call) {
  auto& [matrices, num_outputs] = *static_cast<Shape*>(state);
  int num_matrices = static_cast<int>(matrices.size());
  Tensor x = call.input(0);
  std::vector<Tensor> w = inputs(call, 1, num_matrices), biases = inputs(call, 1 + num_matrices, num_matrices), made;
  if (!call.ok()) return;
  Layer of(x.dim(0), x.dim(1), matrices);
  for (auto [count, width, has_relu] : matrices)
    for (int64_t n = 0; n < count && call.ok(); ++n)
      made.push_back(call.output(static_cast<int>(made.size()), kType<N>, {of.batch, width}));
  if (!call.ok()) return;
  Products<N>::forward(of, x.data<N>(), pointers<N>(w).data(), pointers<N>(biases).data(), pointers<N>(made).data());
}

template <typename N>
void inputs_gradient(void* state, Call& call) {
  auto& [matrices, num_outputs] = *static_cast<Shape*>(state);
  int num_matrices = static_cast<int>(matrices.size()), count = static_cast<int>(num_outputs);
  std::vector<Tensor> results = inputs(call, 0, count), gradients = inputs(call, count, count),
                      w = inputs(call, 2 * count, num_matrices), of_biases;
  if (!call.ok()) return;
  Layer of(results[0].dim(0), w[0].dim(0), matrices);
  Tensor of_x = call.output(0, kType<N>, {of.batch, of.inputs});
  Tensor kept = call.output(1, kType<N>, {Products<N>::kept_size(of)});
  for (int m = 0; m < num_matrices && call.ok(); ++m)
    of_biases.push_back(call.output(2 + m, TF_FLOAT, {matrices[m].columns()}));
  if (!call.ok()) return;
  Products<N>::inputs_gradient(of, pointers<N>(results).data(), pointers<N>(gradients).data(), pointers<N>(w).data(),
                               of_x.data<N>(), kept.data<N>(), pointers<float>(of_biases).data());
}

template <typename N>
void weights_gradient(void* state, Call& call) {
  auto& [matrices, num_outputs] = *static_cast<Shape*>(state);
  Tensor x = call.input(0), kept = call.input(1);
  std::vector<Tensor> of_w;
  if (!call.ok()) return;
  Layer of(x.dim(0), x.dim(1), matrices);
  for (size_t m = 0; m < matrices.size() && call.ok(); ++m)
    of_w.push_back(call.output(static_cast<int>(m), kType<N>, {of.inputs, matrices[m].columns()}));
  if (!call.ok()) return;
  Products<N>::weights_gradient(of, x.data<N>(), kept.data<N>(), pointers<N>(of_w).data());
}

template <typename N>
void gradient(void* state, Call& call) {
  auto& [matrices, num_outputs] = *static_cast<Shape*>(state);
  int num_matrices = static_cast<int>(matrices.size()), count = static_cast<int>(num_outputs);
  Tensor x = call.input(0);
  std::vector<Tensor> results = inputs(call, 1, count), gradients = inputs(call, 1 + count, count),
                      w = inputs(call, 1 + 2 * count, num_matrices), of_w, of_biases;
  if (!call.ok()) return;
  Layer of(x.dim(0), x.dim(1), matrices);
  Tensor of_x = call.output(0, kType<N>, {of.batch, of.inputs});
  for (int m = 0; m < num_matrices && call.ok(); ++m) {
    of_w.push_back(call.output(1 + m, kType<N>, {of.inputs, matrices[m].columns()}));
    of_biases.push_back(call.output(1 + num_matrices + m, TF_FLOAT, {matrices[m].columns()}));
  }
  if (!call.ok()) return;
  Products<N>::gradient(of, x.data<N>(), pointers<N>(results).data(), pointers<N>(gradients).data(),
                        pointers<N>(w).data(), of_x.data<N>(), pointers<N>(of_w).data(),
                        pointers<float>(of_biases).data());
}

// Number type, and the attributes that `shape` reads; M matrices, OUTPUTS networks.
Operation& layer_attributes(Operation& operation) {
  return operation.attribute(NUMBERS).attribute("M: int >= 1").attribute("OUTPUTS: int >= 1")
      .attribute("COUNTS: list(int)").attribute("WIDTHS: list(int)").attribute("RELUS: list(int)");
}

[[maybe_unused]] const bool registered =
    layer_attributes(Operation("SangamLayer").input("x: N").input("w: M * N").input("biases: M * N")
                         .output("outputs: OUTPUTS * N"))
        .kernel(shape, either<forward<float>, forward<Half>>, destroy_shape) &&
    layer_attributes(Operation("SangamLayerGradient").input("x: N").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("of_w: M * N")
                         .output("of_biases: M * float"))
        .kernel(shape, either<gradient<float>, gradient<Half>>, destroy_shape) &&
    layer_attributes(Operation("SangamLayerInputsGradient").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("kept: N")
                         .output("of_biases: M * float"))
        .kernel(shape, either<inputs_gradient<float>, inputs_gradient<Half>>, destroy_shape) &&
    layer_attributes(Operation("SangamLayerWeightsGradient").input("x: N").input("kept: N").output("of_w: M * N"))
        .kernel(shape, either<weights_gradient<float>, weights_gradient<Half>>, destroy_shape);

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

// Whether the processor has AMX for bfloat16 and the kernel lets this process use it, which it must request.
bool has_amx() {
  constexpr unsigned kBfloat16 = 1u << 5, kTiles = 1u << 24, kTilesOfBfloat16 = 1u << 22;
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTiles) || !(d & kTilesOfBfloat16)) return false;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & kBfloat16)) return false;
  return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
}

}  // namespace

// Whether this process can compute layers of this number type.
extern "C" __attribute__((visibility("default"))) bool sangam_has_layers(bool bfloat16) {
  return has_avx512() && (!bfloat16 || has_amx());
}

}  // namespace sangam
