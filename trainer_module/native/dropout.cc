// Dropout in one pass: the random numbers of TensorFlow's stateless_uniform are drawn where they are used, and never
// written to memory.
//
// Reference: Salmon et al.: Parallel random numbers: as easy as 1, 2, 3, SC 2011, section 3.3: Philox4x32-10.
#include <algorithm>
#include <vector>

#include "trainer_module/native/kernel.h"
#include "trainer_module/native/threads.h"

namespace sangam {
namespace {

constexpr int kLanes = 16;             // Counters at a time, each with 4 numbers.
constexpr int64_t kNumbers = 4 * kLanes;
constexpr uint32_t kFraction = 0x7fffff;  // The bits of a random number that TensorFlow makes a float32 of.

struct Count {
  int32_t count, threads;
  explicit Count(TF_OpKernelConstruction* construction)
      : count(int_attribute(construction, "M")), threads(int_attribute(construction, "THREADS")) {}
};

// A generator of TensorFlow: number n is word n % 4 of the block with the counter + n / 4.
struct Philox {
  uint64_t key, low, high;

  // Writes the numbers from 4 * first on, a multiple of kNumbers.
  ALWAYS_INLINE void draw(uint64_t first, int64_t count, uint32_t* __restrict to) const {
    for (int64_t done = 0; done < count; done += kNumbers, first += kLanes) {
      uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) {
        uint64_t its = low + first + static_cast<uint64_t>(lane);
        uint64_t above = high + (its < low ? 1 : 0);
        a[lane] = static_cast<uint32_t>(its), b[lane] = static_cast<uint32_t>(its >> 32);
        c[lane] = static_cast<uint32_t>(above), d[lane] = static_cast<uint32_t>(above >> 32);
      }
      uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
      for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u) {
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) {
          uint64_t from_a = 0xd2511f53ull * a[lane], from_c = 0xcd9e8d57ull * c[lane];
          a[lane] = static_cast<uint32_t>(from_c >> 32) ^ b[lane] ^ key0;
          c[lane] = static_cast<uint32_t>(from_a >> 32) ^ d[lane] ^ key1;
          b[lane] = static_cast<uint32_t>(from_c), d[lane] = static_cast<uint32_t>(from_a);
        }
      }
      for (int lane = 0; lane < kLanes; ++lane, to += 4)
        to[0] = a[lane], to[1] = b[lane], to[2] = c[lane], to[3] = d[lane];
    }
  }
};

template <typename N>
struct dropout_arguments {
  N* const* x;
  N* const* kept;
  const int64_t* widths;
  const int32_t* least;   // Smallest fraction of a number that keeps a column.
  const float* scale;
  Philox random;
  int64_t matrices, begin, end, columns;  // Rows from `begin` to `end`.
};

template <typename N>
ALWAYS_INLINE inline void dropout_of(dropout_arguments<N> a) {
  if (a.columns == 0) return;
  int64_t rows = std::max<int64_t>(1, 2'048 / a.columns);
  std::vector<uint32_t> numbers(rows * a.columns + 2 * kNumbers);
  for (int64_t first = a.begin; first < a.end; first += rows) {
    int64_t end = std::min(a.end, first + rows), before = first * a.columns;
    a.random.draw(static_cast<uint64_t>(before / 4), end * a.columns - before / 4 * 4, numbers.data());
    const uint32_t* __restrict number = numbers.data() + before % 4;
    for (int64_t b = first; b < end; ++b) {
      const int32_t* __restrict least = a.least;
      const float* __restrict scale = a.scale;
      for (int64_t m = 0; m < a.matrices; ++m) {
        int64_t width = a.widths[m];
        const N* x = a.x[m] + b * width;  // May be `kept`.
        N* kept = a.kept[m] + b * width;
#pragma omp simd
        for (int64_t h = 0; h < width; ++h) {
          float its = wide(x[h]) * scale[h];
          kept[h] = narrow<N>(static_cast<int32_t>(number[h] & kFraction) >= least[h] ? its : 0.0f);
        }
        number += width, least += width, scale += width;
      }
    }
  }
}
FOR_BOTH(dropout)

template <typename N>
void dropout_kernel(const Count& of, Call& call) {
  std::vector<int64_t> widths;
  std::vector<Tensor> x, kept;
  int64_t batch = kAny, columns = 0;
  for (int m = 0; m < of.count; ++m) {
    auto [its, out] = call.input_and_output(m, {"x", m}, {batch, kAny}, m);
    batch = its.dim(0), columns += its.dim(1);
    widths.push_back(its.dim(1));
    x.push_back(std::move(its)), kept.push_back(std::move(out));
  }
  Tensor key = call.input(of.count, "key", {1}), counter = call.input(of.count + 1, "counter", {2}),
         least = call.input(of.count + 2, "least", {columns}), scale = call.input(of.count + 3, "scale", {columns});
  const uint64_t* counts = counter.data<uint64_t>();
  Philox random{*key.data<uint64_t>(), counts[0], counts[1]};
  std::vector<N*> from = pointers<N>(x), to = pointers<N>(kept);
  Threads::run(of.threads, of.threads, [&](int64_t part) {
    int64_t begin = batch * part / of.threads, end = batch * (part + 1) / of.threads;
    dropout(dropout_arguments<N>{from.data(), to.data(), widths.data(), least.data<int32_t>(), scale.data<float>(),
                                 random, of.count, begin, end, columns});
  });
}

[[maybe_unused]] const bool registered =
    Operation("SangamDropout").input("x: M * N").input("key: uint64").input("counter: uint64").input("least: int32")
        .input("scale: float").output("kept: M * N").attribute(NUMBERS).attribute("M: int >= 1")
        .attribute("THREADS: int >= 1")
        .kernel<Count, either<Count, dropout_kernel<float>, dropout_kernel<Half>>>();

}  // namespace
}  // namespace sangam
