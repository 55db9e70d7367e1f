// Batch, group and layer normalisation of float32 and their gradients, as kernels/nn/norm.py and batch_norm.py have them
// in NumPy: a row is what has one mean. Sums are of 16 at a time in float32, of 2048 values, and in float64 beyond.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#pragma GCC push_options
#pragma GCC optimize("O3")
namespace norms {

// A row is `runs` of `length` values; `row` and `run` are distances between them. The weight of a value is that of a
// row (of `period`), of a run and, if `of_value` is 1, of the value's place in its run.
struct Rows {
  long long runs, length, row, run, period, of_row, of_run, of_value;
  int64_t weight(int64_t r, int64_t each) const { return r % period * of_row + each * of_run; }
};

constexpr int64_t kPart = 2048, kFlush = 32;
typedef float Four __attribute__((vector_size(16)));
typedef float InMemory __attribute__((vector_size(16), aligned(alignof(float)), may_alias));

// Values of an array from `i` on: one or four, as `one` is.
struct Values {
  const float* at;
  float operator()(float, int64_t i) const { return at[i]; }
  Four operator()(Four, int64_t i) const { return *reinterpret_cast<const InMemory*>(at + i); }
};

inline void store(float* to, float value) { *to = value; }
inline void store(float* to, Four value) { *reinterpret_cast<InMemory*>(to) = value; }

template <class Term>
inline double total(int64_t length, Term term) {
  double sum = 0;
  for (int64_t i = 0; i < length;) {
    int64_t last = std::min(length, i + kPart);
    Four sums[4] = {};
    float rest = 0;
    for (; i + 16 <= last; i += 16)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sums[v] += term(Four(), i + 4 * v);
    for (; i < last; ++i) rest += term(0.f, i);
    Four all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    sum += double(all[0]) + all[1] + all[2] + all[3] + rest;
  }
  return sum;
}

template <class Value>
inline void fill(float* to, int64_t length, Value value) {
  int64_t i = 0;
  for (; i + 4 <= length; i += 4) store(to + i, value(Four(), i));
  for (; i < length; ++i) store(to + i, value(0.f, i));
}

inline void forward(
    const float* x, const float* weight, const float* bias, float eps, float* y, float* means, float* variances,
    const Rows& g, int64_t first, int64_t last) {
  double width = double(g.runs) * g.length;
  for (int64_t r = first; r < last; ++r) {
    double sum = 0, squares = 0;
    for (int64_t each = 0; each < g.runs; ++each) sum += total(g.length, Values{x + r * g.row + each * g.run});
    float mean = means[r] = float(sum / width);
    for (int64_t each = 0; each < g.runs; ++each) {
      Values of{x + r * g.row + each * g.run};
      squares += total(g.length, [=](auto one, int64_t i) { auto from = of(one, i) - mean; return from * from; });
    }
    float variance = variances[r] = float(squares / width), inverse = 1 / std::sqrt(variance + eps);
    for (int64_t each = 0; each < g.runs; ++each) {
      int64_t start = r * g.row + each * g.run, at = g.weight(r, each);
      Values of{x + start}, factor{weight + at}, offset{bias + at};
      if (g.of_value)
        fill(y + start, g.length, [=](auto one, int64_t i) {
          return (of(one, i) - mean) * inverse * factor(one, i) + offset(one, i);
        });
      else
        fill(y + start, g.length, [=, scale = weight[at], shift = bias[at]](auto one, int64_t i) {
          return (of(one, i) - mean) * inverse * scale + shift;
        });
    }
  }
}

// Adds the gradients of `count` weights and biases to `sums`; that of x is left out without a `result`.
inline void gradient(
    const float* grad, const float* x, const float* means, const float* inverses, const float* weight, float* result,
    double* sums, int64_t count, const Rows& g, int64_t first, int64_t last) {
  double width = double(g.runs) * g.length;
  std::vector<float> parts(g.of_value ? 2 * count : 0);
  auto flush = [&] {
    for (size_t i = 0; i < parts.size(); ++i) sums[i] += parts[i];
    std::fill(parts.begin(), parts.end(), 0.f);
  };
  for (int64_t r = first; r < last; ++r) {
    float mean = means[r], inverse = inverses[r];
    double along = 0, level = 0;
    for (int64_t each = 0; each < g.runs; ++each) {
      int64_t start = r * g.row + each * g.run, at = g.weight(r, each);
      Values of{x + start}, given{grad + start}, factor{weight + at};
      auto standard = [=](auto one, int64_t i) { return given(one, i) * ((of(one, i) - mean) * inverse); };
      if (g.of_value) {
        along += total(g.length, [=](auto one, int64_t i) { return factor(one, i) * standard(one, i); });
        level += total(g.length, [=](auto one, int64_t i) { return factor(one, i) * given(one, i); });
        Values one_part{parts.data() + at}, other{parts.data() + count + at};
        fill(parts.data() + at, g.length, [=](auto one, int64_t i) { return one_part(one, i) + standard(one, i); });
        fill(parts.data() + count + at, g.length, [=](auto one, int64_t i) { return other(one, i) + given(one, i); });
      } else {
        double slope = total(g.length, standard), sum = total(g.length, given);
        along += weight[at] * slope;
        level += weight[at] * sum;
        sums[at] += slope;
        sums[count + at] += sum;
      }
    }
    if (g.of_value && (r - first) % (kFlush * g.period) == kFlush * g.period - 1) flush();
    float slope = float(along / width), shift = float(level / width);
    for (int64_t each = 0; result && each < g.runs; ++each) {
      int64_t start = r * g.row + each * g.run, at = g.weight(r, each);
      Values of{x + start}, given{grad + start}, factor{weight + at};
      auto centred = [=](auto one, int64_t i) { return shift + (of(one, i) - mean) * inverse * slope; };
      if (g.of_value)
        fill(result + start, g.length, [=](auto one, int64_t i) {
          return (given(one, i) * factor(one, i) - centred(one, i)) * inverse;
        });
      else
        fill(result + start, g.length, [=, scale = weight[at]](auto one, int64_t i) {
          return (given(one, i) * scale - centred(one, i)) * inverse;
        });
    }
  }
  flush();
}

}  // namespace norms
#pragma GCC pop_options
