// Products of layers in float32, with AVX-512: tiles of 14 examples and 32 columns, whose sums stay in registers.
#pragma once

#include <immintrin.h>

#include "trainer_module/native/products.h"
#include "trainer_module/native/transpose.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma")

namespace sangam {

struct FloatProducts {
  using Number = float;
  static constexpr int64_t kRows = 14;
  static constexpr int64_t kDepth = 176;            // Inputs of a product per pass.
  static constexpr int64_t kPart = 2 * kDepth;      // Inputs of a block's examples that stay in the second-level cache.
  static constexpr int64_t kBlock = 18 * kRows;     // Examples summed into a weight's gradient before it is written.
  static constexpr int64_t kSubblock = 9 * kRows;   // Examples whose gradients stay in the second-level cache.

  static_assert(kBlock % kSubblock == 0 && kSubblock % kRows == 0);

  static int64_t kept_size(const Layer& of) { return rounded_up(of.batch, kBlock) * of.padded_columns(); }

  static void forward(const Layer& of, const float* x_BI, const float* const* w, const float* const* biases,
                      float* const* outputs) {
    float* packed = pack(of, w);
    for (int64_t first = 0; first < of.batch; first += kBlock)
      for (int64_t begin = 0; begin < of.inputs; begin += kPart)
        forward_of_part(of, first, begin, x_BI, packed, biases, outputs);
  }

  // The gradients after the relus, `kept`: [blocks, panels, kBlock, 32], and from them those of x and biases.
  static void inputs_gradient(const Layer& of, const float* const* outputs, const float* const* gradients,
                              const float* const* w, float* of_x_BI, float* kept, float* const* of_biases) {
    const float* packed = pack_transposed(of, w);
    of.clear(of_biases);
    for (int64_t first = 0; first < of.batch; first += kBlock)
      inputs_of_block(of, first, outputs, gradients, packed, of_x_BI, kept + first * of.padded_columns(), of_biases);
  }

  static void weights_gradient(const Layer& of, const float* x_BI, const float* kept, float* const* of_w) {
    float* sums = cleared_sums(of);
    for (int64_t first = 0; first < of.batch; first += kBlock)
      weights_of_block(of, first, x_BI, kept + first * of.padded_columns(), sums);
    store_weights(of, sums, of_w);
  }

  // Both gradients, block by block: the gradients after the relus stay in the cache.
  static void gradient(const Layer& of, const float* x_BI, const float* const* outputs, const float* const* gradients,
                       const float* const* w, float* of_x_BI, float* const* of_w, float* const* of_biases) {
    const float* packed = pack_transposed(of, w);
    float* kept = scratch<float, 3>(kBlock * of.padded_columns());
    float* sums = cleared_sums(of);
    of.clear(of_biases);
    for (int64_t first = 0; first < of.batch; first += kBlock) {
      inputs_of_block(of, first, outputs, gradients, packed, of_x_BI, kept, of_biases);
      weights_of_block(of, first, x_BI, kept, sums);
    }
    store_weights(of, sums, of_w);
  }

 private:
  struct Sums {
    __m512 of[kRows][2];

    ALWAYS_INLINE void clear() {
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r) of[r][0] = of[r][1] = _mm512_setzero_ps();
    }

    ALWAYS_INLINE void load(const float* from, int64_t stride, int64_t rows, int64_t columns) {
      __mmask16 low = mask(columns), high = mask(columns - 16);
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r) {
        of[r][0] = _mm512_maskz_loadu_ps(r < rows ? low : 0, from + r * stride);
        of[r][1] = _mm512_maskz_loadu_ps(r < rows ? high : 0, from + r * stride + 16);
      }
    }

    ALWAYS_INLINE void add(__m512 low, __m512 high) {
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r) {
        of[r][0] = _mm512_add_ps(of[r][0], low);
        of[r][1] = _mm512_add_ps(of[r][1], high);
      }
    }

    // A NaN stays a NaN, so that the step is skipped: of a NaN and a number, `max` returns the second operand.
    ALWAYS_INLINE void relu() {
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t half = 0; half < 2; ++half) of[r][half] = _mm512_max_ps(_mm512_setzero_ps(), of[r][half]);
    }

    ALWAYS_INLINE void add_to(float* to) const {
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t half = 0; half < 2; ++half) {
          float* its = to + r * kColumns + half * 16;
          _mm512_store_ps(its, _mm512_add_ps(_mm512_load_ps(its), of[r][half]));
        }
    }
  };

  static __mmask16 mask(int64_t count) {
    return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
  }

  // Adds to tile[r, :] the sum over k of a[r * row_stride + k * k_stride] b[k, :]; the second half only if it is used.
  ALWAYS_INLINE static void add(const float* a, int64_t row_stride, int64_t k_stride, const float* b, int64_t depth,
                                int64_t columns, Sums& sums) {
    columns > 16 ? add<true>(a, row_stride, k_stride, b, depth, sums) : add<false>(a, row_stride, k_stride, b, depth, sums);
  }

  template <bool has_high>
  ALWAYS_INLINE static void add(const float* a, int64_t row_stride, int64_t k_stride, const float* b, int64_t depth,
                                Sums& sums) {
    for (int64_t k = 0; k < depth; ++k) {
      __m512 low = _mm512_load_ps(b + k * kColumns), high = _mm512_load_ps(b + k * kColumns + 16);
#pragma GCC unroll 14
      for (int64_t r = 0; r < kRows; ++r) {
        __m512 x = _mm512_set1_ps(a[r * row_stride + k * k_stride]);
        sums.of[r][0] = _mm512_fmadd_ps(x, low, sums.of[r][0]);
        if (has_high) sums.of[r][1] = _mm512_fmadd_ps(x, high, sums.of[r][1]);
      }
    }
  }

  ALWAYS_INLINE static void multiply(const float* a, int64_t row_stride, int64_t k_stride,
                                                             const float* b, int64_t depth, int64_t columns, Sums& sums) {
    sums.clear();
    add(a, row_stride, k_stride, b, depth, columns, sums);
  }

  ALWAYS_INLINE static void store(const Sums& sums, float* to, int64_t stride, int64_t rows,
                                                          int64_t columns) {
    __mmask16 low = mask(columns), high = mask(columns - 16);
#pragma GCC unroll 14
    for (int64_t r = 0; r < kRows; ++r) {
      if (r == rows) return;
      _mm512_mask_storeu_ps(to + r * stride, low, sums.of[r][0]);
      _mm512_mask_storeu_ps(to + r * stride + 16, high, sums.of[r][1]);
    }
  }

  // Adds to a block of outputs the products of one part of the inputs.
  static void forward_of_part(const Layer& of, int64_t first, int64_t begin, const float* x_BI, const float* packed,
                              const float* const* biases, float* const* outputs) {
    int64_t end = std::min(of.batch, first + kBlock), inputs = std::min(kPart, of.inputs - begin), stride = of.inputs;
    const float* x = x_BI + first * of.inputs + begin;
    // A tile reads whole rows, and rows that are a power of two apart would compete for the same cache sets.
    if (of.inputs > kPart || end - first < kBlock) x = part(x, end - first, inputs, std::exchange(stride, kPart));
    for (int64_t number = 0; number < of.num_panels(); ++number) {
      const Panel& panel = of.panels[number];
      const float* bias = biases[panel.matrix] + panel.column;
      __m512 low = _mm512_maskz_loadu_ps(mask(panel.used), bias);
      __m512 high = _mm512_maskz_loadu_ps(mask(panel.used - 16), bias + 16);
      // Split once more, so that the panel's rows stay in the first-level cache.
      for (int64_t k = 0; k < inputs; k += kDepth) {
        int64_t depth = std::min(kDepth, inputs - k);
        for (int64_t row = first; row < end; row += kRows) {
          int64_t rows = std::min(kRows, end - row);
          float* to = outputs[panel.output] + row * panel.width + panel.start;
          Sums sums;
          if (begin + k == 0)
            sums.clear();
          else
            sums.load(to, panel.width, rows, panel.used);
          add(x + (row - first) * stride + k, stride, 1, packed + (number * of.inputs + begin + k) * kColumns, depth,
              panel.used, sums);
          if (begin + k + depth == of.inputs) {
            sums.add(low, high);
            if (panel.has_relu) sums.relu();
          }
          store(sums, to, panel.width, rows, panel.used);
        }
      }
    }
  }

  static void inputs_of_block(const Layer& of, int64_t begin, const float* const* outputs,
                              const float* const* gradients, const float* packed, float* of_x_BI, float* kept,
                              float* const* of_biases) {
    int64_t depth = of.padded_columns(), of_panel = kBlock * kColumns;
    for (int64_t first = begin; first < std::min(of.batch, begin + kBlock); first += kSubblock) {
      int64_t end = std::min(of.batch, first + kSubblock);
      float* block = kept + (first - begin) * kColumns;
      keep(of, first, end, outputs, gradients, block, of_biases);
      for (int64_t column = 0; column < of.inputs; column += kColumns) {
        for (int64_t row = first; row < end; row += kRows) {
          Sums sums;
          sums.clear();
          for (int64_t panel = 0; panel < of.num_panels(); ++panel)
            add(block + panel * of_panel + (row - first) * kColumns, kColumns, 1,
                packed + (column / kColumns * depth + panel * kColumns) * kColumns, of.panels[panel].used,
                of.inputs - column, sums);
          store(sums, of_x_BI + row * of.inputs + column, of.inputs, std::min(kRows, end - row),
                std::min(kColumns, of.inputs - column));
        }
      }
    }
  }

  // Sums of the weights' gradient: [panels, tiles of inputs, 14, 32].
  static float* cleared_sums(const Layer& of) {
    int64_t size = of.padded_columns() * rounded_up(of.inputs, kRows);
    float* sums = scratch<float, 2>(size);
    std::memset(sums, 0, size * sizeof(float));
    return sums;
  }

  static void weights_of_block(const Layer& of, int64_t first, const float* x_BI, const float* kept, float* sums) {
    int64_t examples = std::min(of.batch - first, kBlock);
    const float* x = columns(x_BI + first * of.inputs, examples, of.inputs);
    for (int64_t panel = 0; panel < of.num_panels(); ++panel)
      for (int64_t i = 0; i < of.inputs; i += kRows, sums += kRows * kColumns) {
        for (int64_t line = 0; line < kRows * kColumns; line += 16) _mm_prefetch(sums + line, _MM_HINT_T0);
        Sums more;
        multiply(x + i * kBlock, 1, kRows, kept + panel * kBlock * kColumns, examples, of.panels[panel].used, more);
        more.add_to(sums);
      }
  }

  static void store_weights(const Layer& of, const float* sums, float* const* of_w) {
    for (const Panel& panel : of.panels) {
      for (int64_t i = 0; i < of.inputs; ++i)
        std::memcpy(of_w[panel.matrix] + i * panel.stride + panel.column, sums + i * kColumns,
                    panel.used * sizeof(float));
      sums += rounded_up(of.inputs, kRows) * kColumns;
    }
  }

  // Gradients where there is no relu or its output is above 0, else 0; adds them to the biases' gradients. Row by row,
  // in memory order.
  static void keep(const Layer& of, int64_t first, int64_t end, const float* const* outputs,
                   const float* const* gradients, float* kept, float* const* of_biases) {
    for (int64_t next = 0, number = 0; number < of.num_panels(); number = next) {
      const Panel& begin = of.panels[number];
      while (next < of.num_panels() && of.panels[next].output == begin.output) ++next;
      for (int64_t row = first; row < end; ++row) {
        const float* y = outputs[begin.output] + row * begin.width;
        const float* g = gradients[begin.output] + row * begin.width;
        float* sums = of_biases[begin.matrix] + begin.column;
        float* to = kept + number * kBlock * kColumns + (row - first) * kColumns;
        for (int64_t h = 0; h < (next - number) * kColumns; h += 16) {
          __mmask16 used = mask(begin.width - h), is_on = used;
          if (begin.has_relu)
            is_on = _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps(used, y + h), _mm512_setzero_ps(), _CMP_GT_OQ);
          __m512 its = _mm512_maskz_loadu_ps(is_on, g + h);
          _mm512_store_ps(to + h / kColumns * kBlock * kColumns + h % kColumns, its);
          _mm512_mask_storeu_ps(sums + h, used, _mm512_add_ps(_mm512_maskz_loadu_ps(used, sums + h), its));
        }
      }
    }
    // The last tile reads all its rows.
    int64_t unused = rounded_up(end - first, kRows) - (end - first);
    for (int64_t panel = 0; panel < of.num_panels() && unused > 0; ++panel)
      std::memset(kept + (panel * kBlock + end - first) * kColumns, 0, unused * kColumns * sizeof(float));
  }

  // Packs matrices into panels of 32 columns: [panels, I, 32].
  static float* pack(const Layer& of, const float* const* w) {
    float* packed = scratch<float, 0>(of.padded_columns() * of.inputs);
    float* to = packed;
    for (const Panel& panel : of.panels) {
      __mmask16 low = mask(panel.used), high = mask(panel.used - 16);
      const float* from = w[panel.matrix] + panel.column;
      for (int64_t i = 0; i < of.inputs; ++i, from += panel.stride, to += kColumns) {
        _mm512_store_ps(to, _mm512_maskz_loadu_ps(low, from));
        _mm512_store_ps(to + 16, _mm512_maskz_loadu_ps(high, from + 16));
      }
    }
    return packed;
  }

  // Packs transposed matrices into panels of 32 inputs: [panels of inputs, panels * 32, 32].
  static float* pack_transposed(const Layer& of, const float* const* w) {
    int64_t depth = of.padded_columns(), columns = rounded_up(of.inputs, kColumns);
    float* packed = scratch<float, 0>(columns * depth);
    for (int64_t i = 0; i < columns; i += 16)
      for (int64_t number = 0; number < of.num_panels(); ++number)
        for (int64_t half = 0; half < kColumns; half += 16) {
          const Panel& panel = of.panels[number];
          const float* from = w[panel.matrix] + i * panel.stride + panel.column + half;
          __m512i rows[16];
          for (int64_t r = 0; r < 16; ++r)
            rows[r] = _mm512_maskz_loadu_epi32(i + r < of.inputs ? mask(panel.used - half) : 0, from + r * panel.stride);
          transpose(rows);
          float* to = packed + (i / kColumns * depth + number * kColumns + half) * kColumns + i % kColumns;
          for (int64_t r = 0; r < 16; ++r) _mm512_store_si512(to + r * kColumns, rows[r]);
        }
    return packed;
  }

  // Copies a part of a block's inputs: whole tiles of rows, kPart apart.
  static const float* part(const float* x, int64_t rows, int64_t inputs, int64_t stride) {
    float* copied = scratch<float, 1>(kBlock * kPart);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(copied + r * kPart, x + r * stride, inputs * sizeof(float));
    std::memset(copied + rows * kPart, 0, (rounded_up(rows, kRows) - rows) * kPart * sizeof(float));
    return copied;
  }

  // Packs examples of x into tiles of 14 inputs: [tiles, kBlock, 14]; those beyond the last input are 0.
  static float* columns(const float* x, int64_t examples, int64_t inputs) {
    int64_t padded = rounded_up(inputs, kRows);
    float* tiles = scratch<float, 1>(padded * kBlock + 2);
    for (int64_t b = 0; b < examples; ++b)
      for (int64_t i = 0; i < padded; i += kRows) {
        __mmask16 used = mask(std::min(kRows, inputs - i));
        _mm512_mask_storeu_ps(tiles + i * kBlock + b * kRows, 0x3fff, _mm512_maskz_loadu_ps(used, x + b * inputs + i));
      }
    return tiles;
  }
};

}  // namespace sangam

#pragma GCC pop_options
