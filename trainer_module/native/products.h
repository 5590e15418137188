// Common code of the products of layers. Kernels compute tiles of an output: some rows, 32 columns.
//
// Suffixes: B batch, I inputs, N networks side by side, H width of a network's output.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "trainer_module/native/kernel.h"

namespace sangam {

constexpr int64_t kColumns = 32;  // Columns of a panel: matrices are packed into panels, which kernels read in order.

inline int64_t rounded_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

// A buffer that a thread reuses across calls, aligned to a cache line. May contain old values.
template <typename T, int kUse>
T* scratch(int64_t size) {
  struct Buffer {
    void* memory = nullptr;
    int64_t bytes = 0;
    ~Buffer() { std::free(memory); }
  };
  static thread_local Buffer buffer;
  int64_t bytes = rounded_up(size * static_cast<int64_t>(sizeof(T)), 64);
  if (bytes > buffer.bytes) {
    std::free(buffer.memory);
    buffer.bytes = 0;
    buffer.memory = std::aligned_alloc(64, bytes);
    if (buffer.memory == nullptr) throw std::bad_alloc();
    buffer.bytes = bytes;
  }
  return static_cast<T*>(buffer.memory);
}

// Networks of one shape, side by side in one matrix: x W_n + b_n, or its relu, for each network n.
struct Networks {
  int64_t count, width;
  bool has_relu;
  int64_t columns() const { return count * width; }
};

// Up to 32 columns of a network.
struct Panel {
  int64_t matrix, output;       // Index of its matrix, and of its network among all networks.
  int64_t start, used;          // First column in its network's output, and number of columns.
  int64_t column, stride;       // First column in its matrix, and the matrix's row length.
  int64_t width;                // Width of its network's output.
  bool has_relu;
};

// A layer of networks that share their input.
struct Layer {
  int64_t batch, inputs;
  std::vector<Networks> matrices;
  std::vector<Panel> panels;

  Layer(int64_t batch, int64_t inputs, std::vector<Networks> of) : batch(batch), inputs(inputs), matrices(std::move(of)) {
    int64_t output = 0;
    for (size_t matrix = 0; matrix < matrices.size(); ++matrix) {
      auto [count, width, has_relu] = matrices[matrix];
      for (int64_t n = 0; n < count; ++n, ++output)
        for (int64_t start = 0; start < width; start += kColumns)
          panels.push_back({static_cast<int64_t>(matrix), output, start, std::min(kColumns, width - start),
                            n * width + start, count * width, width, has_relu});
    }
  }

  void clear(float* const* of_biases) const {
    for (size_t m = 0; m < matrices.size(); ++m) std::memset(of_biases[m], 0, matrices[m].columns() * sizeof(float));
  }
  int64_t num_panels() const { return static_cast<int64_t>(panels.size()); }
  int64_t padded_columns() const { return num_panels() * kColumns; }
};

}  // namespace sangam
