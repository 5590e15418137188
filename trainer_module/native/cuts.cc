// A cut: the rows of a table as they were at one moment, read by a thread while training changes them. Before a row
// changes for the first time since the cut, it is kept aside; no other row is copied.
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int64_t kAhead = 8;  // Rows to prefetch ahead.
constexpr int64_t kLine = 64;  // Bytes in a cache line.

// Memory that takes a page when it is first written, all zeros until then.
class Pages {
 public:
  explicit Pages(int64_t bytes) : bytes_(std::max<int64_t>(bytes, 1)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  template <typename T>
  T* as() const { return static_cast<T*>(memory_); }

 private:
  int64_t bytes_;
  void* memory_;
};

// The rows from 1 to `end` of one moment. It refers to their memory: rows of a table that has moved since lie there
// unchanged.
class Cut {
 public:
  Cut(Tensor rows, Tensor books, Tensor keys, int64_t end, int64_t num_books)
      : rows_(std::move(rows)), books_(std::move(books)), keys_(std::move(keys)), end_(end), floats_(rows_.dim(1)),
        num_books_(num_books), width_(floats_ + num_books), place_(end * 4), kept_rows_(end * width_ * 4),
        kept_keys_(end * 8) {}

  bool is_of(const Tensor& rows) const { return rows.data<float>() == rows_.data<float>(); }
  bool has(int64_t number) const { return 0 < number && number < end_; }

  // Keeps rows that are about to change. `numbers` may have any number of rows that the cut does not have.
  void keep(const int64_t* numbers, int64_t count) {
    std::lock_guard lock(mutex_);
    for (int64_t n = 0; n < count; ++n) {
      if (n + kAhead < count && has(numbers[n + kAhead])) fetch(numbers[n + kAhead]);
      int64_t number = numbers[n];
      if (!has(number) || place_.as<uint32_t>()[number] != 0) continue;
      kept_keys_.as<int64_t>()[kept_] = keys_.data<int64_t>()[number];
      copy(number, kept_rows_.as<float>() + kept_ * width_);
      place_.as<uint32_t>()[number] = ++kept_;
    }
  }

  // Reads rows in any order; no row is changed meanwhile, since who changes it keeps it first.
  void read_rows(const int64_t* indices, int64_t count, float* out) {
    std::lock_guard lock(mutex_);
    for (int64_t n = 0; n < count; ++n) {
      if (n + kAhead < count) fetch(indices[n + kAhead] + 1);
      uint32_t place = place_.as<uint32_t>()[indices[n] + 1];
      if (place == 0) {
        copy(indices[n] + 1, out + n * width_);
      } else {
        std::memcpy(out + n * width_, kept_rows_.as<float>() + (place - 1) * width_, width_ * 4);
      }
    }
  }

  void read_keys(const int64_t* indices, int64_t count, int64_t* out) {
    std::lock_guard lock(mutex_);
    for (int64_t n = 0; n < count; ++n) {
      uint32_t place = place_.as<uint32_t>()[indices[n] + 1];
      out[n] = place == 0 ? keys_.data<int64_t>()[indices[n] + 1] : kept_keys_.as<int64_t>()[place - 1];
    }
  }

  int64_t kept() {
    std::lock_guard lock(mutex_);
    return kept_;
  }

  // Whether all indices are of rows that the cut has.
  bool have(const int64_t* indices, int64_t count) const {
    return std::all_of(indices, indices + count, [this](int64_t index) { return has(index + 1); });
  }

 private:
  // Copies a row, and behind it the bits of its books.
  void copy(int64_t number, float* to) const {
    std::memcpy(to, rows_.data<float>() + number * floats_, floats_ * 4);
    if (num_books_ > 0) std::memcpy(to + floats_, books_.data<int32_t>() + number * num_books_, num_books_ * 4);
  }

  void fetch(int64_t number) const {
    const char* its = reinterpret_cast<const char*>(rows_.data<float>() + number * floats_);
    __builtin_prefetch(place_.as<uint32_t>() + number);
    for (int64_t at = 0; at < floats_ * 4; at += kLine) __builtin_prefetch(its + at);
    if (num_books_ > 0) __builtin_prefetch(books_.data<int32_t>() + number * num_books_);
  }

  const Tensor rows_, books_, keys_;
  const int64_t end_, floats_, num_books_, width_;
  std::mutex mutex_;
  const Pages place_;  // Of each row: 0, or one more than its place among those kept.
  const Pages kept_rows_, kept_keys_;
  uint32_t kept_ = 0;
};

std::mutex mutex;  // Of the two below.
std::unordered_map<int64_t, std::shared_ptr<Cut>> cuts;
int64_t last = 0;

std::shared_ptr<Cut> found(int64_t number) {
  std::lock_guard lock(mutex);
  auto at = cuts.find(number);
  return at == cuts.end() ? nullptr : at->second;
}

// Rows may have no books: the variable is then another one.
struct Books {
  int32_t count;
  explicit Books(TF_OpKernelConstruction* construction) : count(int_attribute(construction, "BOOKS")) {}
};

void begin(const Books& of, Call& call) {
  int64_t end = *call.input(3, "end", {}).data<int64_t>();
  Tensor rows = call.variable("rows", {at_least(end), at_least(1)}),
         keys = call.variable("keys", {at_least(end)}, 2, TF_INT64), number = call.output(0, TF_INT64, {});
  if (end < 1) refuse("end", "not behind row 0", end, "at least ", 1);
  Tensor books;
  if (of.count > 0) books = call.variable("books", {at_least(end), of.count}, 1, TF_INT32);
  auto made = std::make_shared<Cut>(std::move(rows), std::move(books), std::move(keys), end, of.count);
  std::lock_guard lock(mutex);
  cuts[++last] = std::move(made);
  *number.data<int64_t>() = last;
}

void keep(const NoState&, Call& call) {
  std::shared_ptr<Cut> cut = found(*call.input(1, "cut", {}).data<int64_t>());
  if (cut == nullptr || !cut->is_of(call.variable("rows", {kAny, kAny}))) return;
  Tensor numbers = call.input(2, "numbers", {kAny});
  cut->keep(numbers.data<int64_t>(), numbers.size());
}

template <typename Read>
int32_t read(int64_t number, const int64_t* indices, int64_t count, const Read& of) {
  std::shared_ptr<Cut> cut = found(number);
  if (cut == nullptr || !cut->have(indices, count)) return -1;
  of(*cut);
  return 0;
}

[[maybe_unused]] const bool registered =
    Operation("SangamBeginCut").input("rows: resource").input("books: resource").input("keys: resource")
        .input("end: int64").output("cut: int64").attribute("BOOKS: int >= 0").stateful().kernel<Books, begin>() &&
    Operation("SangamKeepRows").input("rows: resource").input("cut: int64").input("numbers: int64").stateful()
        .kernel<NoState, keep>();

}  // namespace
}  // namespace sangam

#pragma GCC visibility push(default)
extern "C" {

// Reads keys, or rows, by index among the rows of a cut; returns -1 if there is no such cut, or no such row.
int32_t sangam_keys_of_cut(int64_t cut, const int64_t* indices, int64_t count, int64_t* keys) noexcept {
  return sangam::read(cut, indices, count, [&](sangam::Cut& its) { its.read_keys(indices, count, keys); });
}

int32_t sangam_rows_of_cut(int64_t cut, const int64_t* indices, int64_t count, float* rows) noexcept {
  return sangam::read(cut, indices, count, [&](sangam::Cut& its) { its.read_rows(indices, count, rows); });
}

// Returns how many rows have been kept aside; -1 if there is no such cut.
int64_t sangam_kept_by_cut(int64_t cut) noexcept {
  std::shared_ptr<sangam::Cut> its = sangam::found(cut);
  return its == nullptr ? -1 : its->kept();
}

// Ends a cut, and gives back its memory; there may be none.
void sangam_end_cut(int64_t cut) noexcept {
  std::shared_ptr<sangam::Cut> its;  // Freed without the lock.
  std::lock_guard lock(sangam::mutex);
  auto at = sangam::cuts.find(cut);
  if (at == sangam::cuts.end()) return;
  its = std::move(at->second);
  sangam::cuts.erase(at);
}

}  // extern "C"
#pragma GCC visibility pop
