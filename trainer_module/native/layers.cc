// Layers that compute products, biases and relus in one pass over memory, on processors with AVX-512 or AMX: see
// `FloatProducts` and `HalfProducts`.
#include <cpuid.h>

#include "trainer_module/native/float_products.h"
#include "trainer_module/native/half_products.h"
#include "trainer_module/native/kernel.h"
#include "trainer_module/native/threads.h"

namespace sangam {
namespace {

// Examples of one member of an ensemble, computed by one thread.
struct Slice {
  int64_t first, count, member;
  bool is_first;  // Of its member.
};

// The layer's shape from the operation's attributes: number, width and relu of each matrix's networks. Members of an
// ensemble are equal parts of the batch; each has its own matrices, below one another, and biases.
struct Shape {
  std::vector<Networks> matrices;
  int count, outputs, members, threads;
  explicit Shape(TF_OpKernelConstruction* construction)
      : count(int_attribute(construction, "M")), outputs(int_attribute(construction, "OUTPUTS")),
        members(int_attribute(construction, "MEMBERS")), threads(int_attribute(construction, "THREADS")) {
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

  // The members' matrices, of `inputs` rows each.
  std::vector<Tensor> weights(Call& call, int first, int64_t inputs) const {
    std::vector<Tensor> found;
    for (int m = 0; m < count; ++m)
      found.push_back(call.input(first + m, {"w", m}, {members * inputs, matrices[m].columns()}));
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

  std::vector<Slice> slices(int64_t batch) const {
    if (batch % members != 0) refuse("x", "wrong number of examples", batch, "needs a multiple of MEMBERS, ", members);
    std::vector<Slice> found;
    int64_t of_member = batch / members, parts = (threads + members - 1) / members;
    for (int64_t member = 0; member < members; ++member)
      for (int64_t part = 0; part < parts; ++part) {
        int64_t begin = of_member * part / parts, end = of_member * (part + 1) / parts;
        found.push_back({member * of_member + begin, end - begin, member, part == 0});
      }
    return found;
  }

  Layer layer(const Slice& slice, int64_t inputs) const { return Layer(slice.count, inputs, matrices); }

  // Pointers to a slice's rows of the matrices of networks.
  template <typename N>
  std::vector<N*> rows(std::vector<N*> of, const Slice& slice) const {
    size_t place = 0;
    for (auto [networks, width, has_relu] : matrices)
      for (int64_t n = 0; n < networks; ++n) of[place++] += slice.first * width;
    return of;
  }

  // Pointers to a member's own part of each matrix, or of its bias: of as many rows.
  template <typename N>
  std::vector<N*> own(std::vector<N*> of, int64_t member, int64_t rows) const {
    for (int m = 0; m < count; ++m) of[m] += member * rows * matrices[m].columns();
    return of;
  }
};

// Sums over slices: the first slice of a member writes where the sum will be, the others into memory of their own.
template <typename N>
class Sums {
 public:
  Sums(const Shape& shape, const std::vector<Slice>& slices, std::vector<N*> of, int64_t rows)
      : shape_(shape), slices_(slices), of_(std::move(of)), rows_(rows), others_(slices.size()) {}

  // Where a slice writes.
  std::vector<N*> of(int64_t number) {
    const Slice& slice = slices_[number];
    if (slice.is_first) return shape_.own(of_, slice.member, rows_);
    int64_t size = 0;
    for (const Networks& matrix : shape_.matrices) size += rows_ * matrix.columns();
    others_[number].resize(size);
    std::vector<N*> found;
    N* next = others_[number].data();
    for (const Networks& matrix : shape_.matrices) found.push_back(next), next += rows_ * matrix.columns();
    return found;
  }

  // Adds the others up, in the order of the slices.
  void add() {
    for (size_t number = 0; number < slices_.size(); ++number) {
      if (slices_[number].is_first) continue;
      std::vector<N*> to = shape_.own(of_, slices_[number].member, rows_);
      const N* from = others_[number].data();
      for (int m = 0; m < shape_.count; ++m)
        for (int64_t at = 0; at < rows_ * shape_.matrices[m].columns(); ++at, ++from)
          to[m][at] = narrow<N>(wide(to[m][at]) + wide(*from));
    }
  }

 private:
  const Shape& shape_;
  const std::vector<Slice>& slices_;
  std::vector<N*> of_;
  int64_t rows_;
  std::vector<std::vector<N>> others_;
};

template <typename Products>
void forward(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  int64_t batch = x.dim(0), inputs = x.dim(1);
  std::vector<Tensor> w = shape.weights(call, 1, inputs), biases, made;
  for (int m = 0; m < shape.count; ++m) {
    int64_t columns = shape.members * shape.matrices[m].columns();
    biases.push_back(call.input(1 + shape.count + m, {"biases", m}, {columns}));
  }
  for (auto [networks, width, has_relu] : shape.matrices)
    for (int64_t n = 0; n < networks; ++n)
      made.push_back(call.output(static_cast<int>(made.size()), kType<N>, {batch, width}));
  std::vector<Slice> slices = shape.slices(batch);
  Threads::run(slices.size(), shape.threads, [&](int64_t number) {
    const Slice& slice = slices[number];
    Products::forward(shape.layer(slice, inputs), x.data<N>() + slice.first * inputs,
                      shape.own(pointers<N>(w), slice.member, inputs).data(),
                      shape.own(pointers<N>(biases), slice.member, 1).data(),
                      shape.rows(pointers<N>(made), slice).data());
  });
}

// The first row of each slice's part of `kept`, and behind the last one their number.
template <typename Products>
std::vector<int64_t> parts_of_kept(const Shape& shape, const std::vector<Slice>& slices, int64_t inputs) {
  std::vector<int64_t> begins{0};
  for (const Slice& slice : slices)
    begins.push_back(begins.back() + Products::kept_size(shape.layer(slice, inputs)));
  return begins;
}

template <typename Products>
void inputs_gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  std::vector<Tensor> results = shape.networks(call, 0, "outputs", kAny),
                      gradients = shape.networks(call, shape.outputs, "gradients", results[0].dim(0)), of_biases;
  int64_t batch = results[0].dim(0), inputs = call.rows_of(2 * shape.outputs, {"w", 0}) / shape.members;
  std::vector<Tensor> w = shape.weights(call, 2 * shape.outputs, inputs);
  std::vector<Slice> slices = shape.slices(batch);
  std::vector<int64_t> parts = parts_of_kept<Products>(shape, slices, inputs);
  Tensor of_x = call.output(0, kType<N>, {batch, inputs}), kept = call.output(1, kType<N>, {parts.back()});
  for (int m = 0; m < shape.count; ++m)
    of_biases.push_back(call.output(2 + m, TF_FLOAT, {shape.members * shape.matrices[m].columns()}));
  Sums<float> biases(shape, slices, pointers<float>(of_biases), 1);
  Threads::run(slices.size(), shape.threads, [&](int64_t number) {
    const Slice& slice = slices[number];
    Products::inputs_gradient(shape.layer(slice, inputs), shape.rows(pointers<N>(results), slice).data(),
                              shape.rows(pointers<N>(gradients), slice).data(),
                              shape.own(pointers<N>(w), slice.member, inputs).data(),
                              of_x.data<N>() + slice.first * inputs, kept.data<N>() + parts[number],
                              biases.of(number).data());
  });
  biases.add();
}

template <typename Products>
void weights_gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  int64_t batch = x.dim(0), inputs = x.dim(1);
  std::vector<Slice> slices = shape.slices(batch);
  std::vector<int64_t> parts = parts_of_kept<Products>(shape, slices, inputs);
  Tensor kept = call.input(1, "kept", {parts.back()});
  std::vector<Tensor> of_w;
  for (int m = 0; m < shape.count; ++m)
    of_w.push_back(call.output(m, kType<N>, {shape.members * inputs, shape.matrices[m].columns()}));
  Sums<N> sums(shape, slices, pointers<N>(of_w), inputs);
  Threads::run(slices.size(), shape.threads, [&](int64_t number) {
    const Slice& slice = slices[number];
    Products::weights_gradient(shape.layer(slice, inputs), x.data<N>() + slice.first * inputs,
                               kept.data<N>() + parts[number], sums.of(number).data());
  });
  sums.add();
}

template <typename Products>
void gradient(const Shape& shape, Call& call) {
  using N = typename Products::Number;
  Tensor x = call.input(0, "x", {kAny, at_least(1)});
  int64_t batch = x.dim(0), inputs = x.dim(1);
  std::vector<Tensor> results = shape.networks(call, 1, "outputs", batch),
                      gradients = shape.networks(call, 1 + shape.outputs, "gradients", batch),
                      w = shape.weights(call, 1 + 2 * shape.outputs, inputs), of_w, of_biases;
  Tensor of_x = call.output(0, kType<N>, {batch, inputs});
  for (int m = 0; m < shape.count; ++m) {
    int64_t columns = shape.matrices[m].columns();
    of_w.push_back(call.output(1 + m, kType<N>, {shape.members * inputs, columns}));
    of_biases.push_back(call.output(1 + shape.count + m, TF_FLOAT, {shape.members * columns}));
  }
  std::vector<Slice> slices = shape.slices(batch);
  Sums<N> sums(shape, slices, pointers<N>(of_w), inputs);
  Sums<float> biases(shape, slices, pointers<float>(of_biases), 1);
  Threads::run(slices.size(), shape.threads, [&](int64_t number) {
    const Slice& slice = slices[number];
    Products::gradient(shape.layer(slice, inputs), x.data<N>() + slice.first * inputs,
                       shape.rows(pointers<N>(results), slice).data(),
                       shape.rows(pointers<N>(gradients), slice).data(),
                       shape.own(pointers<N>(w), slice.member, inputs).data(),
                       of_x.data<N>() + slice.first * inputs, sums.of(number).data(), biases.of(number).data());
  });
  sums.add();
  biases.add();
}

// Number type, and the attributes that `Shape` reads; M matrices, OUTPUTS networks.
Operation& layer_attributes(Operation& operation) {
  return operation.attribute(NUMBERS).attribute("M: int >= 1").attribute("OUTPUTS: int >= 1")
      .attribute("COUNTS: list(int)").attribute("WIDTHS: list(int)").attribute("RELUS: list(int)")
      .attribute("MEMBERS: int >= 1").attribute("THREADS: int >= 1");
}

[[maybe_unused]] const bool registered =
    layer_attributes(Operation("SangamLayer").input("x: N").input("w: M * N").input("biases: M * N")
                         .output("outputs: OUTPUTS * N"))
        .kernel<Shape, either<Shape, forward<FloatProducts>, forward<HalfProducts>>>() &&
    layer_attributes(Operation("SangamLayerGradient").input("x: N").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("of_w: M * N")
                         .output("of_biases: M * float"))
        .kernel<Shape, either<Shape, gradient<FloatProducts>, gradient<HalfProducts>>>() &&
    layer_attributes(Operation("SangamLayerInputsGradient").input("outputs: OUTPUTS * N")
                         .input("gradients: OUTPUTS * N").input("w: M * N").output("of_x: N").output("kept: N")
                         .output("of_biases: M * float"))
        .kernel<Shape, either<Shape, inputs_gradient<FloatProducts>, inputs_gradient<HalfProducts>>>() &&
    layer_attributes(Operation("SangamLayerWeightsGradient").input("x: N").input("kept: N").output("of_w: M * N"))
        .kernel<Shape, either<Shape, weights_gradient<FloatProducts>, weights_gradient<HalfProducts>>>();

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
extern "C" __attribute__((visibility("default"))) bool sangam_has_layers(bool bfloat16) noexcept {
  return has_avx512() && (!bfloat16 || has_amx());
}

}  // namespace sangam
