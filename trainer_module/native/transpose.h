// Transposes 16 rows of 16 32-bit numbers, or of pairs of 16-bit numbers, in registers.
#pragma once

#include <immintrin.h>

#include "trainer_module/native/kernel.h"

#pragma GCC push_options
#pragma GCC target("avx512f")

namespace sangam {

ALWAYS_INLINE inline void transpose(__m512i (&rows)[16]) {
  __m512i step[16];
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) {
    step[r] = _mm512_unpacklo_epi32(rows[r], rows[r + 1]);
    step[r + 1] = _mm512_unpackhi_epi32(rows[r], rows[r + 1]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4)
    for (int half = 0; half < 2; ++half) {
      rows[r + 2 * half] = _mm512_unpacklo_epi64(step[r + half], step[r + half + 2]);
      rows[r + 2 * half + 1] = _mm512_unpackhi_epi64(step[r + half], step[r + half + 2]);
    }
#pragma GCC unroll 2
  for (int r = 0; r < 16; r += 8)
    for (int at = 0; at < 4; ++at) {
      step[r + at] = _mm512_shuffle_i32x4(rows[r + at], rows[r + at + 4], 0x88);
      step[r + at + 4] = _mm512_shuffle_i32x4(rows[r + at], rows[r + at + 4], 0xdd);
    }
#pragma GCC unroll 8
  for (int at = 0; at < 8; ++at) {
    rows[at] = _mm512_shuffle_i32x4(step[at], step[at + 8], 0x88);
    rows[at + 8] = _mm512_shuffle_i32x4(step[at], step[at + 8], 0xdd);
  }
}

}  // namespace sangam

#pragma GCC pop_options
