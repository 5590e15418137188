// Products of layers in bfloat16: tiles of 32 examples and 32 columns, summed as float32 by a unit of the processor.
#pragma once

#include <immintrin.h>

#include <limits>

#include "trainer_module/native/half_units.h"
#include "trainer_module/native/products.h"
#include "trainer_module/native/transpose.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")

namespace sangam {

// `Unit` is `Amx` or `Dots`.
template <typename Unit>
struct HalfProducts {
  using Number = Half;
  static constexpr int64_t kRows = 32;
  static constexpr int64_t kBlock = 16 * kRows;    // As in `FloatProducts`.
  static constexpr int64_t kSubblock = 4 * kRows;

  static_assert(kBlock % kSubblock == 0 && kSubblock % kRows == 0);

  static int64_t kept_size(const Layer& of) { return rounded_up(of.batch, kBlock) * of.padded_columns(); }

  static void forward(const Layer& of, const Half* x_BI, const Half* const* w, const Half* const* biases,
                      Half* const* outputs) {
    [[maybe_unused]] Unit unit;
    int64_t depth = rounded_up(of.inputs, Unit::kDepth);
    Half* packed = pack(of, w);
    for (int64_t first = 0; first < of.batch; first += kSubblock) {
      int64_t end = std::min(of.batch, first + kSubblock);
      const Half* x = x_BI + first * of.inputs;
      // A tile reads whole rows.
      if (depth != of.inputs || end - first != kSubblock) x = whole_rows(x, end - first, of.inputs);
      for (int64_t number = 0; number < of.num_panels(); ++number) {
        const Panel& panel = of.panels[number];
        const Half* bias = biases[panel.matrix] + panel.column;
        __m512 low = wide(_mm256_maskz_loadu_epi16(mask(panel.used), bias));
        __m512 high = wide(_mm256_maskz_loadu_epi16(mask(panel.used) >> 16, bias + 16));
        // As in `FloatProducts`, for `max`.
        __m512 least = _mm512_set1_ps(panel.has_relu ? 0.0f : -std::numeric_limits<float>::infinity());
        for (int64_t row = first; row < end; row += kRows) {
          alignas(64) float sums[kRows][kColumns];
          Unit::multiply({x + (row - first) * depth, depth, 16 * depth, 32}, packed + number * depth * kColumns, depth,
                         panel.used, &sums[0][0], false);
          Half* to = outputs[panel.output] + row * panel.width + panel.start;
          for (int64_t r = 0; r < std::min(kRows, end - row); ++r)
            store(_mm512_max_ps(least, _mm512_add_ps(_mm512_load_ps(sums[r]), low)),
                  _mm512_max_ps(least, _mm512_add_ps(_mm512_load_ps(sums[r] + 16), high)), to + r * panel.width,
                  panel.used);
        }
      }
    }
  }

  // As in `FloatProducts`; `kept` is [blocks, panels, kBlock / 2, 32, 2].
  static void inputs_gradient(const Layer& of, const Half* const* outputs, const Half* const* gradients,
                              const Half* const* w, Half* of_x_BI, Half* kept, float* const* of_biases) {
    [[maybe_unused]] Unit unit;
    const Half* packed = pack_transposed(of, w);
    of.clear(of_biases);
    for (int64_t first = 0; first < of.batch; first += kBlock)
      inputs_of_block(of, first, outputs, gradients, packed, of_x_BI, kept + first * of.padded_columns(), of_biases);
  }

  static void weights_gradient(const Layer& of, const Half* x_BI, const Half* kept, Half* const* of_w) {
    [[maybe_unused]] Unit unit;
    float* sums = cleared_sums(of);
    for (int64_t first = 0; first < of.batch; first += kBlock)
      weights_of_block(of, first, x_BI, kept + first * of.padded_columns(), sums);
    store_weights(of, sums, of_w);
  }

  // As in `FloatProducts`.
  static void gradient(const Layer& of, const Half* x_BI, const Half* const* outputs, const Half* const* gradients,
                       const Half* const* w, Half* of_x_BI, Half* const* of_w, float* const* of_biases) {
    [[maybe_unused]] Unit unit;
    const Half* packed = pack_transposed(of, w);
    Half* kept = scratch<Half, 2>(kBlock * of.padded_columns());
    float* sums = cleared_sums(of);
    of.clear(of_biases);
    for (int64_t first = 0; first < of.batch; first += kBlock) {
      inputs_of_block(of, first, outputs, gradients, packed, of_x_BI, kept, of_biases);
      weights_of_block(of, first, x_BI, kept, sums);
    }
    store_weights(of, sums, of_w);
  }

 private:
  static __mmask32 mask(int64_t count) {
    return count >= 32 ? ~0u : count <= 0 ? 0u : (1u << count) - 1;
  }

  static __m512 wide(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }

  static void store(__m512 low, __m512 high, Half* to, int64_t columns) {
    _mm512_mask_storeu_epi16(to, mask(columns), reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }

  // Interleaves two rows of 32 numbers: [32, 2].
  static void store_pairs(__m512i even, __m512i odd, Half* to) {
    _mm512_store_si512(to, pairs(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd)));
    _mm512_store_si512(to + 32, pairs(_mm512_extracti64x4_epi64(even, 1), _mm512_extracti64x4_epi64(odd, 1)));
  }

  static __m512i pairs(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
  }

  static void inputs_of_block(const Layer& of, int64_t begin, const Half* const* outputs, const Half* const* gradients,
                              const Half* packed, Half* of_x_BI, Half* kept, float* const* of_biases) {
    // Rows are padded: rows a power of two apart would compete for the same cache sets.
    int64_t depth = of.padded_columns(), stride = depth + kColumns;
    Half* rows = scratch<Half, 1>(kSubblock * stride);
    for (int64_t first = begin; first < std::min(of.batch, begin + kBlock); first += kSubblock) {
      int64_t end = std::min(of.batch, first + kSubblock);
      keep(of, first, end, outputs, gradients, rows, stride, kept + (first - begin) * kColumns, of_biases);
      for (int64_t column = 0; column < of.inputs; column += kColumns) {
        for (int64_t row = first; row < end; row += kRows) {
          alignas(64) float sums[kRows][kColumns];
          Unit::multiply({rows + (row - first) * stride, stride, 16 * stride, 32}, packed + column * depth, depth,
                         of.inputs - column, &sums[0][0], false);
          for (int64_t r = 0; r < std::min(kRows, end - row); ++r)
            store(_mm512_load_ps(sums[r]), _mm512_load_ps(sums[r] + 16), of_x_BI + (row + r) * of.inputs + column,
                  std::min(kColumns, of.inputs - column));
        }
      }
    }
  }

  // Sums of the weights' gradient: [panels, tiles of inputs, 32, 32].
  static float* cleared_sums(const Layer& of) {
    int64_t size = of.padded_columns() * rounded_up(of.inputs, kRows);
    float* sums = scratch<float, 2>(size);
    std::memset(sums, 0, size * sizeof(float));
    return sums;
  }

  static void weights_of_block(const Layer& of, int64_t first, const Half* x_BI, const Half* kept, float* sums) {
    int64_t examples = rounded_up(std::min(of.batch - first, kBlock), kRows);
    const Half* columns = columns_of(of, x_BI, first, examples);
    for (int64_t panel = 0; panel < of.num_panels(); ++panel)
      for (int64_t i = 0; i < of.inputs; i += kRows, sums += kRows * kColumns)
        Unit::multiply({columns + i * kBlock, 32, 16 * kBlock, 16 * 32}, kept + panel * kBlock * kColumns, examples,
                       of.panels[panel].used, sums, true);
  }

  static void store_weights(const Layer& of, const float* sums, Half* const* of_w) {
    for (const Panel& panel : of.panels) {
      for (int64_t i = 0; i < of.inputs; ++i)
        store(_mm512_load_ps(sums + i * kColumns), _mm512_load_ps(sums + i * kColumns + 16),
              of_w[panel.matrix] + i * panel.stride + panel.column, panel.used);
      sums += rounded_up(of.inputs, kRows) * kColumns;
    }
  }

  // As in `FloatProducts`: stores rows and pairs of rows, and sums.
  static void keep(const Layer& of, int64_t first, int64_t end, const Half* const* outputs,
                   const Half* const* gradients, Half* rows, int64_t stride, Half* kept, float* const* of_biases) {
    // Up to the end of a tile, which reads all its rows.
    int64_t last = first + rounded_up(end - first, kRows);
    for (int64_t next = 0, number = 0; number < of.num_panels(); number = next) {
      const Panel& begin = of.panels[number];
      while (next < of.num_panels() && of.panels[next].output == begin.output) ++next;
      for (int64_t row = first; row < last; row += 2) {
        const Half *y = outputs[begin.output] + row * begin.width, *g = gradients[begin.output] + row * begin.width;
        Half* to = rows + (row - first) * stride + number * kColumns;
        Half* its_pairs = kept + (number * kBlock + row - first) * kColumns;
        float* sums = of_biases[begin.matrix] + begin.column;
        for (int64_t panel = number, h = 0; panel < next; ++panel, h += kColumns) {
          __mmask32 used = mask(begin.width - h);
          __m512i even = let_through(begin, y + h, g + h, row < end ? used : 0);
          __m512i odd = let_through(begin, y + begin.width + h, g + begin.width + h, row + 1 < end ? used : 0);
          _mm512_storeu_si512(to + h, even);
          _mm512_storeu_si512(to + stride + h, odd);
          store_pairs(even, odd, its_pairs + h * kBlock);
          add_to(sums + h, static_cast<__mmask16>(used), _mm512_castsi512_si256(even), _mm512_castsi512_si256(odd));
          add_to(sums + h + 16, static_cast<__mmask16>(used >> 16), _mm512_extracti64x4_epi64(even, 1),
                 _mm512_extracti64x4_epi64(odd, 1));
        }
      }
    }
  }

  static __m512i let_through(const Panel& panel, const Half* y, const Half* g, __mmask32 used) {
    if (!panel.has_relu) return _mm512_maskz_loadu_epi16(used, g);
    __m512i output = _mm512_maskz_loadu_epi16(used, y);
    // Above 0: not negative, not 0, and not NaN, whose bits without the sign exceed those of infinity.
    __mmask32 is_on = _mm512_cmpgt_epi16_mask(output, _mm512_setzero_si512()) &
                      _mm512_cmple_epi16_mask(output, _mm512_set1_epi16(0x7f80));
    return _mm512_maskz_loadu_epi16(is_on, g);
  }

  static void add_to(float* sums, __mmask16 used, __m256i even, __m256i odd) {
    __m512 more = _mm512_add_ps(wide(even), wide(odd));
    _mm512_mask_storeu_ps(sums, used, _mm512_add_ps(_mm512_maskz_loadu_ps(used, sums), more));
  }

  // Packs matrices as pairs of rows in panels of 32 columns: [panels, rounded inputs / 2, 32, 2].
  static Half* pack(const Layer& of, const Half* const* w) {
    int64_t depth = rounded_up(of.inputs, Unit::kDepth);
    Half* packed = scratch<Half, 0>(of.padded_columns() * depth);
    Half* to = packed;
    for (const Panel& panel : of.panels) {
      auto row = [&](int64_t i) {
        return _mm512_maskz_loadu_epi16(i < of.inputs ? mask(panel.used) : 0,
                                        w[panel.matrix] + i * panel.stride + panel.column);
      };
      for (int64_t i = 0; i < depth; i += 2, to += 2 * kColumns) store_pairs(row(i), row(i + 1), to);
    }
    return packed;
  }

  // Packs transposed matrices as pairs of columns in panels of 32 inputs: [panels of inputs, panels * 16, 32, 2].
  static Half* pack_transposed(const Layer& of, const Half* const* w) {
    int64_t depth = of.padded_columns(), columns = rounded_up(of.inputs, kColumns);
    Half* packed = scratch<Half, 0>(columns * depth);
    for (int64_t i = 0; i < columns; i += 16)
      for (int64_t number = 0; number < of.num_panels(); ++number) {
        const Panel& panel = of.panels[number];
        const Half* from = w[panel.matrix] + i * panel.stride + panel.column;
        __m512i rows[16];
        for (int64_t r = 0; r < 16; ++r)
          rows[r] = _mm512_maskz_loadu_epi16(i + r < of.inputs ? mask(panel.used) : 0, from + r * panel.stride);
        transpose(rows);
        Half* to = packed + (i / kColumns * depth + number * kColumns) * kColumns + i % kColumns * 2;
        for (int64_t pair = 0; pair < 16; ++pair) _mm512_store_si512(to + pair * 2 * kColumns, rows[pair]);
      }
    return packed;
  }

  // Transposes examples of x: [inputs / 16, kBlock / 32, 16, 32]; those beyond the batch or the inputs are 0.
  static const Half* columns_of(const Layer& of, const Half* x_BI, int64_t first, int64_t examples) {
    Half* columns = scratch<Half, 3>(rounded_up(of.inputs, kRows) * kBlock);
    for (int64_t b = first; b < first + examples; b += 32)
      for (int64_t i = 0; i < rounded_up(of.inputs, kRows); i += 16) {
        __mmask16 used = static_cast<__mmask16>(mask(of.inputs - i));
        auto row = [&](int64_t at) {
          return _mm256_maskz_loadu_epi16(at < of.batch ? used : 0, x_BI + at * of.inputs + i);
        };
        __m512i rows[16];
        for (int64_t r = 0; r < 16; ++r) rows[r] = pairs(row(b + 2 * r), row(b + 2 * r + 1));
        transpose(rows);
        Half* to = columns + i * kBlock + (b - first) * 16;
        for (int64_t r = 0; r < 16; ++r) _mm512_store_si512(to + r * 32, rows[r]);
      }
    return columns;
  }

  static const Half* whole_rows(const Half* x, int64_t rows, int64_t inputs) {
    int64_t depth = rounded_up(inputs, Unit::kDepth);
    Half* whole = scratch<Half, 1>(kSubblock * depth);
    for (int64_t r = 0; r < rounded_up(rows, kRows); ++r) {
      int64_t used = r < rows ? inputs : 0;
      std::memcpy(whole + r * depth, x + r * inputs, used * sizeof(Half));
      std::memset(whole + r * depth + used, 0, (depth - used) * sizeof(Half));
    }
    return whole;
  }
};

}  // namespace sangam

#pragma GCC pop_options
