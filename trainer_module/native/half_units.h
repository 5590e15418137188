// The units that multiply in bfloat16: AMX, or AVX512-BF16. Each adds products of 32 rows and 32 columns as float32, and
// is held as an object while it is used.
#pragma once

#include <immintrin.h>

#include "trainer_module/native/products.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")

namespace sangam {

// 32 rows of numbers, of which a unit reads 32 numbers at a time. Strides: to the next row, to the 17th, and to the next
// 32 numbers.
struct Rows {
  const Half* first;
  int64_t to_next, to_17th, to_32_more;
};

// Multiplies 16 rows of 32 numbers by 16 pairs of rows of 16 columns: [32, 16] as [16, 16, 2].
class Amx {
 public:
  Amx() {
    // The shape of the tile registers: four of sums, two of rows and two of pairs of rows, each 16 times 64 bytes.
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    static_assert(sizeof(shape) == 64);
    // The intrinsic declares 8 of the 64 bytes that the processor reads.
    asm volatile("" : : "m"(shape));
    _tile_loadconfig(&shape);
  }
  ~Amx() { _tile_release(); }

  static constexpr int64_t kDepth = 32;

  // Stores, or adds, the sums over k of a[r, k] b[k / 2, c, k % 2]: [32, 32], of which some columns are used.
  ALWAYS_INLINE static void multiply(Rows a, const Half* b, int64_t depth, int64_t, float* sums, bool adds) {
    constexpr int64_t kLine = kColumns * sizeof(float);
    // The intrinsics do not declare the memory that tiles are loaded from: what was stored there has to be there.
    asm volatile("" : : : "memory");
    if (adds) {
      _tile_loadd(0, sums, kLine);
      _tile_loadd(1, sums + 16, kLine);
      _tile_loadd(2, sums + 16 * kColumns, kLine);
      _tile_loadd(3, sums + 16 * kColumns + 16, kLine);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t k = 0; k < depth; k += 32, a.first += a.to_32_more) {
      _tile_loadd(4, a.first, a.to_next * 2);
      _tile_loadd(6, b + k * kColumns, kColumns * 4);
      _tile_loadd(7, b + k * kColumns + 32, kColumns * 4);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a.first + a.to_17th, a.to_next * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, kLine);
    _tile_stored(1, sums + 16, kLine);
    _tile_stored(2, sums + 16 * kColumns, kLine);
    _tile_stored(3, sums + 16 * kColumns + 16, kLine);
  }
};

// AVX512-BF16: adds products of a pair of numbers by pairs of rows of 16 columns. The sums of 8 rows stay in registers.
class Dots {
 public:
  static constexpr int64_t kDepth = 2;

  // As `Amx::multiply`.
  ALWAYS_INLINE static void multiply(Rows a, const Half* b, int64_t depth, int64_t columns, float* sums, bool adds) {
    for (int64_t row = 0; row < 32; row += kTogether, sums += kTogether * kColumns) {
      const Half* first = a.first + row / 16 * a.to_17th + row % 16 * a.to_next;
      columns > 16 ? multiply<true>(first, a, b, depth, sums, adds) : multiply<false>(first, a, b, depth, sums, adds);
    }
  }

 private:
  static constexpr int64_t kTogether = 8;

  template <bool has_high>
  ALWAYS_INLINE static void multiply(const Half* x, Rows a, const Half* b, int64_t depth, float* sums, bool adds) {
    __m512 of[kTogether][2];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kTogether; ++r)
      for (int64_t half = 0; half < 2; ++half)
        of[r][half] = adds ? _mm512_load_ps(sums + r * kColumns + half * 16) : _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k += 32, x += a.to_32_more)
      for (int64_t pair = 0; pair < std::min<int64_t>(32, depth - k); pair += 2) {
        const Half* its = b + (k + pair) * kColumns;
        auto low = (__m512bh)_mm512_load_si512(its), high = (__m512bh)_mm512_load_si512(its + 32);
#pragma GCC unroll 8
        for (int64_t r = 0; r < kTogether; ++r) {
          int both;
          std::memcpy(&both, x + r * a.to_next + pair, sizeof both);
          auto twice = (__m512bh)_mm512_set1_epi32(both);
          of[r][0] = _mm512_dpbf16_ps(of[r][0], twice, low);
          if (has_high) of[r][1] = _mm512_dpbf16_ps(of[r][1], twice, high);
        }
      }
#pragma GCC unroll 8
    for (int64_t r = 0; r < kTogether; ++r)
      for (int64_t half = 0; half < 2; ++half) _mm512_store_ps(sums + r * kColumns + half * 16, of[r][half]);
  }
};

}  // namespace sangam

#pragma GCC pop_options
