// Layers of random sizes by HalfProducts and FloatProducts, compared with sums in double: PROGRAM LAYERS SEED.
//
// AMX and AVX512-BF16 are computed in software, so that any processor with AVX-512 runs the code for both. Arrays end where
// their memory does: sanitizers see one element too many.
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace unit {

float sums[8][16][16];
uint16_t halves[8][16][32];
bool is_configured = false, has_memory = true;

void fail(const char* what) {
  std::printf("WRONG: %s\n", what);
  std::exit(3);
}

void load_config(const void* shape) {
  const auto* bytes = static_cast<const uint8_t*>(shape);
  if (bytes[0] != 1) fail("not palette 1");
  for (int tile = 0; tile < 8; ++tile) {
    uint16_t row = 0;
    std::memcpy(&row, bytes + 16 + 2 * tile, sizeof row);
    if (row != 64 || bytes[48 + tile] != 16) fail("a tile is not 16 rows of 64 bytes");
  }
  is_configured = true;
}

void load(int tile, const void* from, long stride) {
  if (!is_configured) fail("a tile was loaded without a configuration");
  for (int r = 0; r < 16; ++r) {
    std::memcpy(halves[tile][r], static_cast<const char*>(from) + r * stride, 64);
    std::memcpy(sums[tile][r], static_cast<const char*>(from) + r * stride, 64);
  }
}

void store(int tile, void* to, long stride) {
  for (int r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * stride, sums[tile][r], 64);
}

float wide(uint16_t x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float whole;
  std::memcpy(&whole, &bits, sizeof whole);
  return whole;
}

uint16_t rounded(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return x == x ? static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) : 0x7fc0;
}

void multiply(int sum, int a, int b) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 16; ++n)
        for (int half = 0; half < 2; ++half)
          sums[sum][m][n] += wide(halves[a][m][2 * k + half]) * wide(halves[b][k][2 * n + half]);
}

#pragma GCC push_options
#pragma GCC target("avx512f")
inline __m512i rounded_pairs(__m512 high, __m512 low) {
  alignas(64) float from[32];
  alignas(64) uint16_t to[32];
  _mm512_store_ps(from, low);
  _mm512_store_ps(from + 16, high);
  for (int at = 0; at < 32; ++at) to[at] = rounded(from[at]);
  return _mm512_load_si512(to);
}

inline __m512 dots(__m512 sums, __m512i a, __m512i b) {
  alignas(64) float to[16];
  alignas(64) uint16_t left[32], right[32];
  _mm512_store_ps(to, sums);
  _mm512_store_si512(left, a);
  _mm512_store_si512(right, b);
  for (int at = 0; at < 32; ++at) to[at / 2] += wide(left[at]) * wide(right[at]);
  return _mm512_load_ps(to);
}
#pragma GCC pop_options

void* memory_if_there_is(size_t alignment, size_t bytes) {
  return has_memory ? std::aligned_alloc(alignment, bytes) : nullptr;
}

}  // namespace unit

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(shape) unit::load_config(shape)
#define _tile_release() static_cast<void>(unit::is_configured = false)
#define _tile_loadd(tile, from, stride) unit::load(tile, from, stride)
#define _tile_stored(tile, to, stride) unit::store(tile, to, stride)
#define _tile_zero(tile) std::memset(unit::sums[tile], 0, sizeof unit::sums[tile])
#define _tile_dpbf16ps(sum, a, b) unit::multiply(sum, a, b)
#define _mm512_cvtne2ps_pbh unit::rounded_pairs
#define _mm512_dpbf16_ps(sums, a, b) unit::dots(sums, (__m512i)(a), (__m512i)(b))
namespace std { using unit::memory_if_there_is; }
#define aligned_alloc memory_if_there_is
#include "trainer_module/native/float_products.h"
#include "trainer_module/native/half_products.h"
#undef aligned_alloc

using namespace sangam;

std::mt19937_64 generator;

int64_t whole(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator); }
int64_t size(int64_t usual, int64_t most) { return whole(0, 3) > 0 ? whole(1, usual) : whole(1, most); }

template <typename N>
struct Array {
  N* data;
  size_t count;
  explicit Array(int64_t size) : data(static_cast<N*>(std::malloc(size * sizeof(N)))), count(size) {
    for (size_t at = 0; at < count; ++at) {
      float x = std::uniform_real_distribution<float>(-1, 1)(generator);
      if constexpr (sizeof(N) == sizeof(float)) data[at] = x;
      else data[at] = unit::rounded(x);
    }
  }
  Array(Array&& other) noexcept : data(std::exchange(other.data, nullptr)), count(other.count) {}
  ~Array() { std::free(data); }
};

template <typename N>
std::vector<N*> pointers_to(const std::vector<Array<N>>& arrays) {
  std::vector<N*> found;
  for (const Array<N>& array : arrays) found.push_back(array.data);
  return found;
}

// Sums in double, and sums of their parts' sizes, to which errors are compared.
struct Exact {
  std::vector<double> sum, size;
  explicit Exact(int64_t count) : sum(count), size(count) {}
  void add(int64_t at, double part) { sum[at] += part, size[at] += std::fabs(part); }
  double error(int64_t at, double found) const { return std::fabs(found - sum[at]) / (size[at] + 1e-9); }
};

double worst = 0;

void compare(const char* what, double error, double most) {
  if (error > worst) worst = error;
  if (error <= most) return;
  std::printf("%s: error %g above %g; ", what, error, most);
  unit::fail("a sum");
}

template <typename Products>
void compare_layer(double most) {
  using N = typename Products::Number;
  int64_t batch = size(80, 1300), inputs = size(70, 900);
  std::vector<Networks> matrices;
  for (int64_t left = whole(1, 3); left > 0; --left) matrices.push_back({whole(1, 4), size(40, 150), whole(0, 1) == 1});
  Layer of(batch, inputs, matrices);
  Array<N> x(batch * inputs), of_x(batch * inputs);
  std::vector<Array<N>> w, biases, outputs, gradients, of_w;
  std::vector<Array<float>> of_biases;
  for (const Networks& its : matrices) {
    w.emplace_back(inputs * its.columns()), of_w.emplace_back(inputs * its.columns());
    biases.emplace_back(its.columns()), of_biases.emplace_back(its.columns());
    for (int64_t n = 0; n < its.count; ++n) outputs.emplace_back(batch * its.width), gradients.emplace_back(batch * its.width);
  }
  std::vector<N*> to_w = pointers_to(w), to_outputs = pointers_to(outputs), to_gradients = pointers_to(gradients),
                  to_of_w = pointers_to(of_w);
  std::vector<float*> to_of_biases = pointers_to(of_biases);
  Products::forward(of, x.data, to_w.data(), pointers_to(biases).data(), to_outputs.data());
  if (whole(0, 1) == 1) {
    auto* kept = static_cast<N*>(std::aligned_alloc(64, rounded_up(Products::kept_size(of) * sizeof(N), 64)));
    Products::inputs_gradient(of, to_outputs.data(), to_gradients.data(), to_w.data(), of_x.data, kept, to_of_biases.data());
    Products::weights_gradient(of, x.data, kept, to_of_w.data());
    std::free(kept);
  } else {
    Products::gradient(of, x.data, to_outputs.data(), to_gradients.data(), to_w.data(), of_x.data, to_of_w.data(),
                       to_of_biases.data());
  }

  Exact exact_of_x(batch * inputs);
  int64_t output = 0;
  for (size_t m = 0; m < matrices.size(); ++m) {
    auto [count, width, has_relu] = matrices[m];
    int64_t columns = count * width;
    Exact exact_of_w(inputs * columns), exact_of_biases(columns);
    for (int64_t n = 0; n < count; ++n, ++output)
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < width; ++h) {
          int64_t column = n * width + h;
          Exact y(1);
          y.add(0, sangam::wide(biases[m].data[column]));
          for (int64_t i = 0; i < inputs; ++i)
            y.add(0, double(sangam::wide(x.data[b * inputs + i])) * sangam::wide(w[m].data[i * columns + column]));
          if (has_relu && y.sum[0] < 0) y.sum[0] = 0;
          double found = sangam::wide(outputs[output].data[b * width + h]);
          compare("outputs", y.error(0, found), most);
          if (has_relu && !(found > 0)) continue;
          double g = sangam::wide(gradients[output].data[b * width + h]);
          exact_of_biases.add(column, g);
          for (int64_t i = 0; i < inputs; ++i) {
            exact_of_x.add(b * inputs + i, g * sangam::wide(w[m].data[i * columns + column]));
            exact_of_w.add(i * columns + column, g * sangam::wide(x.data[b * inputs + i]));
          }
        }
    for (int64_t at = 0; at < inputs * columns; ++at)
      compare("gradient of w", exact_of_w.error(at, sangam::wide(of_w[m].data[at])), most);
    for (int64_t at = 0; at < columns; ++at)
      compare("gradient of biases", exact_of_biases.error(at, of_biases[m].data[at]), most);
  }
  for (int64_t at = 0; at < batch * inputs; ++at)
    compare("gradient of x", exact_of_x.error(at, sangam::wide(of_x.data[at])), most);
}

// Without memory there is an exception, and afterwards no buffer that is said to be larger than it is.
void run_out_of_memory() {
  for (int tries = 0; tries < 2; ++tries) {
    unit::has_memory = false;
    try {
      scratch<float, 9>(1000);
      unit::fail("there was no memory, and no exception");
    } catch (const std::bad_alloc&) {
    }
    unit::has_memory = true;
  }
  std::memset(scratch<float, 9>(1000), 0, 1000 * sizeof(float));
}

int main(int count, char** arguments) {
  if (count != 3) unit::fail("needs LAYERS SEED");
  generator.seed(std::atoi(arguments[2]));
  run_out_of_memory();
  int layers = std::atoi(arguments[1]);
  for (int layer = 0; layer < layers; ++layer) compare_layer<HalfProducts<Amx>>(6e-3);
  for (int layer = 0; layer < layers; ++layer) compare_layer<HalfProducts<Dots>>(6e-3);
  std::printf("bfloat16: 2 x %d layers, largest error %.2e\n", layers, std::exchange(worst, 0));
  for (int layer = 0; layer < layers; ++layer) compare_layer<FloatProducts>(3e-6);
  std::printf("float32: %d layers, largest error %.2e\n", layers, worst);
}
