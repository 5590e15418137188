// Layers that compute products, biases and relus in one pass over memory, on processors with AVX-512: see
// `FloatProducts` and `HalfProducts`.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer_module/native/float_products.h"
#include "trainer_module/native/half_products.h"
#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

bool has_dots() {
  constexpr unsigned kDots = 1u << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kDots);
}

// Whether the processor has AMX for bfloat16 and the kernel lets this process use it, which it must request.
bool has_amx() {
  constexpr unsigned kTiles = 1u << 24, kTilesOfBfloat16 = 1u << 22;
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_dots() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTiles) || !(d & kTilesOfBfloat16)) return false;
  return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
}

struct Shape;
using Compute = void(const Shape& shape, Call& call);

// Runs the version for the number type and, in bfloat16, for the widest unit.
template <Compute of_floats, Compute of_amx, Compute of_dots>
void by_unit(const Shape& shape, Call& call) {
  static const bool is_amx = has_amx();
  (call.type_of(0) == TF_FLOAT ? of_floats : is_amx ? of_amx : of_dots)(shape, call);
}

// The layer's shape from the operation's attributes: number, width and relu of each matrix's networks.
struct Shape {
  std::vector<Networks> matrices;
  int count, outputs;
  explicit Shape(TF_OpKernelConstruction* construction)
      : count(int_attribute(construction, "M")), outputs(int_attribute(construction, "OUTPUTS")) {
    std::vector<int32_t> counts = int_attributes(construction, "COUNTS", count, 1),
                         widths = int_attributes(construction, "WIDTHS", count, 1),
                         relus = int_attributes(construction, "RELUS", count, 0);
    int64_t networks = 0;
    for (int m = 0; m < count; ++m) {
      matrices.push_back({counts[m], widths[m], relus[m] != 0});
      networks += counts[m];
    }
    if (networks != outputs) refuse("COUNTS", "wrong sum", networks, "needs OUTPUTS, ", outputs);
  }

  // The matrices; if `inputs` is not exact, the first one decides.
  std::vector<Tensor> weights(Call& call, int first, int64_t inputs) const {
    std::vector<Tensor> found;
    for (int m = 0; m < count; ++m) {
      found.push_back(call.input(first + m, {"w", m}, {inputs, matrices[m].columns()}));
      inputs = found[0].dim(0);
    }
    return found;
  }

  // A matrix of each network, in as many rows as the first one.
  std::vector<Tensor> networks(Call& call, int first, const char* name, int64_t batch) const {
    std::vector<Tensor> found;
    for (auto [networks, width, has_relu] : matrices)
      for (int64_t n = 0; n < networks; ++n) {
        int place = static_cast<int>(found.size());
        found.push_back(call.input(first + place, {name, place}, {batch, width}));
        batch = found[0].dim(0);
      }
    return found;
  }
};

template <typename Products>
void forward(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  std::vector<Tensor> w = shape.weights(call, 1, x.dim(1)), biases, made;
  for (int m = 0; m < shape.count; ++m)
    biases.push_back(call.input(1 + shape.count + m, {"biases", m}, {shape.matrices[m].columns()}));
  Layer of(x.dim(0), x.dim(1), shape.matrices);
  for (auto [networks, width, has_relu] : shape.matrices)
    for (int64_t n = 0; n < networks; ++n)
      made.push_back(call.output(static_cast<int>(made.size()), kType<N>, {of.batch, width}));
  Products::forward(of, x.data<N>(), pointers<N>(w).data(), pointers<N>(biases).data(), pointers<N>(made).data());
}

template <typename Products>
void inputs_gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  std::vector<Tensor> results = shape.networks(call, 0, "outputs", kAny),
                      gradients = shape.networks(call, shape.outputs, "gradients", results[0].dim(0)),
                      w = shape.weights(call, 2 * shape.outputs, at_least(1)), of_biases;
  Layer of(results[0].dim(0), w[0].dim(0), shape.matrices);
  Tensor of_x = call.output(0, kType<N>, {of.batch, of.inputs});
  Tensor kept = call.output(1, kType<N>, {Products::kept_size(of)});
  for (int m = 0; m < shape.count; ++m)
    of_biases.push_back(call.output(2 + m, TF_FLOAT, {shape.matrices[m].columns()}));
  Products::inputs_gradient(of, pointers<N>(results).data(), pointers<N>(gradients).data(), pointers<N>(w).data(),
                            of_x.data<N>(), kept.data<N>(), pointers<float>(of_biases).data());
}

template <typename Products>
void weights_gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  Layer of(x.dim(0), x.dim(1), shape.matrices);
  Tensor kept = call.input(1, "kept", {Products::kept_size(of)});
  std::vector<Tensor> of_w;
  for (int m = 0; m < shape.count; ++m)
    of_w.push_back(call.output(m, kType<N>, {of.inputs, shape.matrices[m].columns()}));
  Products::weights_gradient(of, x.data<N>(), kept.data<N>(), pointers<N>(of_w).data());
}

template <typename Products>
void gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  std::vector<Tensor> results = shape.networks(call, 1, "outputs", x.dim(0)),
                      gradients = shape.networks(call, 1 + shape.outputs, "gradients", x.dim(0)),
                      w = shape.weights(call, 1 + 2 * shape.outputs, x.dim(1)), of_w, of_biases;
  Layer of(x.dim(0), x.dim(1), shape.matrices);
  Tensor of_x = call.output(0, kType<N>, {of.batch, of.inputs});
  for (int m = 0; m < shape.count; ++m) {
    of_w.push_back(call.output(1 + m, kType<N>, {of.inputs, shape.matrices[m].columns()}));
    of_biases.push_back(call.output(1 + shape.count + m, TF_FLOAT, {shape.matrices[m].columns()}));
  }
  Products::gradient(of, x.data<N>(), pointers<N>(results).data(), pointers<N>(gradients).data(),
                     pointers<N>(w).data(), of_x.data<N>(), pointers<N>(of_w).data(),
                     pointers<float>(of_biases).data());
}

#define BY_UNIT(NAME) by_unit<NAME<FloatProducts>, NAME<HalfProducts<Amx>>, NAME<HalfProducts<Dots>>>

// Number type, and the attributes that `Shape` reads; M matrices, OUTPUTS networks.
Operation& layer_attributes(Operation& operation) {
  return operation.attribute(NUMBERS).attribute("M: int >= 1").attribute("OUTPUTS: int >= 1")
      .attribute("COUNTS: list(int)").attribute("WIDTHS: list(int)").attribute("RELUS: list(int)");
}

[[maybe_unused]] const bool registered =
    layer_attributes(Operation("SangamLayer").input("x: N").input("w: M * N").input("biases: M * N")
                         .output("outputs: OUTPUTS * N"))
        .kernel<Shape, BY_UNIT(forward)>() &&
    layer_attributes(Operation("SangamLayerGradient").input("x: N").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("of_w: M * N")
                         .output("of_biases: M * float"))
        .kernel<Shape, BY_UNIT(gradient)>() &&
    layer_attributes(Operation("SangamLayerInputsGradient").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("kept: N")
                         .output("of_biases: M * float"))
        .kernel<Shape, BY_UNIT(inputs_gradient)>() &&
    layer_attributes(Operation("SangamLayerWeightsGradient").input("x: N").input("kept: N").output("of_w: M * N"))
        .kernel<Shape, BY_UNIT(weights_gradient)>();

}  // namespace

// Whether this process can compute layers of this number type.
extern "C" __attribute__((visibility("default"))) bool sangam_has_layers(bool bfloat16) noexcept {
  return bfloat16 ? has_dots() : has_avx512();
}

}  // namespace sangam
