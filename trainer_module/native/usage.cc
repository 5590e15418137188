// Which rows leave a table by the usage of their ids: passes over the keys and the books of all rows, in their order.
#include <algorithm>
#include <vector>

#include "trainer_module/native/kernel.h"

namespace sangam {
namespace {

constexpr int kTagShift = 52;        // Below a key's tag: its id.
constexpr int64_t kBins = 4096;
constexpr int kMinuteShift = 4;      // A bin has 16 minutes.
constexpr int64_t kMinutes = kBins << kMinuteShift;
constexpr int64_t kNumbers = 5;      // Of a rule.
constexpr int64_t kCount = -1, kNone = -2;

// What a pass does with the rows of a table; see `embedding.eviction`.
struct Rule {
  int64_t oldest;        // Rows not seen since this minute have expired.
  int64_t by_count;      // Whether the least frequent leave first, not the least recent.
  int64_t place;         // Of its histogram; negative if none of its rows leaves by capacity.
  int64_t edge;          // Bin of the last row to leave; kCount: count the bins.
  int64_t edge_in_edge;  // The same by the other number, among the rows of that bin; kCount, or kNone.
};
static_assert(sizeof(Rule) == kNumbers * sizeof(int64_t));

// Bins of occurrences and of minutes: what lies outside is in the first or the last one.
struct Bins {
  int64_t of_count, of_minute;
  ALWAYS_INLINE Bins(int64_t count, int64_t minute, int64_t now)
      : of_count(std::clamp<int64_t>(count, 0, kBins - 1)),
        of_minute(std::clamp<int64_t>(minute - now + kMinutes - 1, 0, kMinutes - 1) >> kMinuteShift) {}
  // Without a branch: tables with either order lie mixed.
  ALWAYS_INLINE int64_t first(const Rule& rule) const { return of_minute + (of_count - of_minute) * rule.by_count; }
  ALWAYS_INLINE int64_t other(const Rule& rule) const { return of_count + (of_minute - of_count) * rule.by_count; }
};

struct Found {
  std::vector<int64_t> going, undecided;  // Numbers of rows.
};

// Decides on a row at or below the edge, or counts it.
void decide(int64_t number, const Rule& rule, const Bins& bins, int64_t* counts, Found& found) {
  bool is_at_edge = bins.first(rule) == rule.edge;
  int64_t other = bins.other(rule);
  if (rule.edge_in_edge == kCount) {
    if (is_at_edge) ++counts[rule.place * kBins + other];
  } else if (!is_at_edge || (rule.edge_in_edge != kNone && other < rule.edge_in_edge)) {
    found.going.push_back(number);
  } else if (rule.edge_in_edge == kNone || other == rule.edge_in_edge) {
    found.undecided.push_back(number);
  }
}

void pass(const int64_t* keys, const int32_t* books, int64_t end, int64_t now, bool is_first, const Rule* rules,
          int64_t num_rules, int64_t* counts, int64_t* expired, Found& found) {
  for (int64_t number = 1; number < end; ++number) {
    uint64_t tag = static_cast<uint64_t>(keys[number]) >> kTagShift;
    if (tag >= static_cast<uint64_t>(num_rules)) refuse("keys", "of no table", tag, "tags are below ", num_rules);
    const Rule& rule = rules[tag];
    int64_t seen = books[2 * number];
    if (seen < rule.oldest) {
      if (is_first) found.going.push_back(number), ++expired[tag];
      continue;
    }
    if (rule.place < 0) continue;
    Bins bins(books[2 * number + 1], seen, now);
    if (rule.edge == kCount) {
      ++counts[rule.place * kBins + bins.first(rule)];
    } else if (bins.first(rule) <= rule.edge) {
      decide(number, rule, bins, counts, found);
    }
  }
}

void pass_kernel(const NoState&, Call& call) {
  int64_t end = *call.input(2, "end", {}).data<int64_t>(), now = *call.input(3, "now", {}).data<int64_t>();
  bool is_first = *call.input(4, "is_first", {}).data<bool>();
  Tensor rules = call.input(5, "rules", {at_least(1), kNumbers});
  Tensor keys = call.variable("keys", {at_least(end)}, 0, TF_INT64),
         books = call.variable("books", {at_least(end), 2}, 1, TF_INT32);
  const Rule* its = reinterpret_cast<const Rule*>(rules.data<int64_t>());
  int64_t count = rules.dim(0), places = 0;
  for (int64_t rule = 0; rule < count; ++rule) places = std::max(places, its[rule].place + 1);
  if (places > count) refuse("rules", "more histograms than tables", places, "at most ", count);
  Tensor bins = call.output(0, TF_INT64, {places, kBins}), expired = call.output(1, TF_INT64, {count});
  std::memset(bins.data<char>(), 0, bins.bytes());
  std::memset(expired.data<char>(), 0, expired.bytes());
  Found found;
  pass(keys.data<int64_t>(), books.data<int32_t>(), end, now, is_first, its, count, bins.data<int64_t>(),
       expired.data<int64_t>(), found);
  int index = 2;
  for (const std::vector<int64_t>* numbers : {&found.going, &found.undecided}) {
    Tensor out = call.output(index++, TF_INT64, {static_cast<int64_t>(numbers->size())});
    std::copy(numbers->begin(), numbers->end(), out.data<int64_t>());
  }
}

[[maybe_unused]] const bool registered =
    Operation("SangamUsagePass").input("keys: resource").input("books: resource").input("end: int64")
        .input("now: int64").input("is_first: bool").input("rules: int64").output("bins: int64")
        .output("expired: int64").output("going: int64").output("undecided: int64").stateful()
        .kernel<NoState, pass_kernel>();

}  // namespace
}  // namespace sangam
