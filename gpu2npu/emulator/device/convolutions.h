// Convolutions of float32 images of one group: products of the values where they are in the image, without copies of
// their windows (kernels/nn/conv.py has the same by NumPy's products). All three directions are one sum,
//
//   result[row][lane] += sum over depth of image[rows[row] + depth[d]] * panel[d][lane]
//
// of places and taps: forward, rows are places, depth is taps and lanes are output channels; for the gradient of the
// image, the same of the gradient with the taps mirrored, one part for each phase of the stride; for that of the weight,
// rows are taps and depth is places. Sums are of 256 products each, as BLAS has them, and then of those.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace direct {

constexpr int kLanes = 16;
constexpr int64_t kBlockRows = 512, kBlockDepth = 256, kPacked = 64;
using Offsets = std::vector<int64_t>;
using Tile = void (*)(const float* const*, const int64_t*, int64_t, const float*, float*);

// The sums of some rows and lanes, in registers of so many bytes.
template <int Bytes, int Rows, int Vectors>
__attribute__((always_inline)) inline void sum_tile(
    const float* const* rows, const int64_t* depth, int64_t count, const float* panel, float* result) {
  typedef float Register __attribute__((vector_size(Bytes)));
  typedef float InMemory __attribute__((vector_size(Bytes), aligned(alignof(float)), may_alias));
  constexpr int kWide = Bytes / sizeof(float);
  Register sums[Rows][Vectors] = {};
  const float* from[Rows];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) from[r] = rows[r];
  for (int64_t d = 0; d < count; ++d, panel += Vectors * kWide) {
    int64_t at = depth[d];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        sums[r][v] += from[r][at] * *reinterpret_cast<const InMemory*>(panel + v * kWide);
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<InMemory*>(result + (r * Vectors + v) * kWide) += sums[r][v];
}

struct Kernel {
  int rows;  // 0: this machine has no vectors for it
  Tile narrow, wide;  // of 16 and of 32 lanes
};

#define TILE(name, bytes, rows, vectors, ...)                                                      \
  __VA_ARGS__ void name(                                                                           \
      const float* const* r, const int64_t* d, int64_t count, const float* panel, float* result) { \
    sum_tile<bytes, rows, vectors>(r, d, count, panel, result);                                    \
  }
#if defined(__x86_64__)
TILE(narrow_512, 64, 8, 1, __attribute__((target("avx512f,fma"), optimize("O3"))))
TILE(wide_512, 64, 8, 2, __attribute__((target("avx512f,fma"), optimize("O3"))))
TILE(narrow_256, 32, 4, 2, __attribute__((target("avx2,fma"), optimize("O3"))))

inline Kernel chosen() {
  if (__builtin_cpu_supports("avx512f")) return {8, narrow_512, wide_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {4, narrow_256, nullptr};
  return {};
}
#elif defined(__aarch64__)
TILE(narrow_128, 16, 4, 4, __attribute__((optimize("O3"))))

inline Kernel chosen() { return {4, narrow_128, nullptr}; }
#else
inline Kernel chosen() { return {}; }
#endif
#undef TILE
const Kernel kernel = chosen();

inline int lanes_for(int64_t channels) { return channels > kLanes && kernel.wide ? 2 * kLanes : kLanes; }

inline int64_t whole(int64_t rows) { return (rows + kernel.rows - 1) / kernel.rows * kernel.rows; }

// Adds to `result`, which has room for `whole(count)` rows.
inline void add_products(
    const float* image, const int64_t* rows, int64_t count, const int64_t* depth, int64_t deep, const float* panel,
    int lanes, float* result) {
  Tile tile = lanes == kLanes ? kernel.narrow : kernel.wide;
  const float* from[8];
  for (int64_t first = 0; first < deep; first += kBlockDepth)
    for (int64_t r = 0; r < count; r += kernel.rows) {
      for (int i = 0; i < kernel.rows; ++i) from[i] = image + rows[std::min(r + i, count - 1)];
      tile(from, depth + first, std::min(kBlockDepth, deep - first), panel + first * lanes, result + r * lanes);
    }
}

struct Planes {  // (N, C, H, W), in C order
  int64_t n, c, size[2];
  int64_t plane() const { return size[0] * size[1]; }
};

// The image with zeros around each plane.
inline const float* padded(const float* image, Planes& p, const int64_t before[2], const int64_t after[2], std::vector<float>& copy) {
  if (!before[0] && !before[1] && !after[0] && !after[1]) return image;
  Planes to{p.n, p.c, {p.size[0] + before[0] + after[0], p.size[1] + before[1] + after[1]}};
  copy.assign(to.n * to.c * to.plane(), 0);
  float* row = copy.data() + before[0] * to.size[1] + before[1];
  for (int64_t each = 0; each < p.n * p.c; ++each, row += to.plane())
    for (int64_t y = 0; y < p.size[0]; ++y, image += p.size[1]) std::copy_n(image, p.size[1], row + y * to.size[1]);
  p = to;
  return copy.data();
}

// Offsets of channels and taps in an image, of places from `step` to `step`.
inline Offsets offsets(int64_t channels, int64_t plane, const Offsets& within) {
  Offsets all;
  all.reserve(channels * within.size());
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t each : within) all.push_back(c * plane + each);
  return all;
}

inline Offsets grid(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  Offsets all;
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x) all.push_back(y * row + x * column);
  return all;
}

// to[c * to_step + r] = from[r * from_step + c], four by four; along the channels, which are the rows or the columns, few
// at a time, as their distance may be that of one set of a cache.
inline void transpose(
    const float* from, int64_t from_step, float* to, int64_t to_step, int64_t rows, int64_t columns, bool by_rows) {
  typedef float Four __attribute__((vector_size(16)));
  typedef float Unaligned __attribute__((vector_size(16), aligned(alignof(float)), may_alias));
  auto four = [&](int64_t r, int64_t c) {
    const float* at = from + r * from_step + c;
    Four a = *reinterpret_cast<const Unaligned*>(at), b = *reinterpret_cast<const Unaligned*>(at + from_step);
    at += 2 * from_step;
    Four x = *reinterpret_cast<const Unaligned*>(at), y = *reinterpret_cast<const Unaligned*>(at + from_step);
    Four ax = __builtin_shufflevector(a, x, 0, 4, 1, 5), by = __builtin_shufflevector(b, y, 0, 4, 1, 5);
    Four ax2 = __builtin_shufflevector(a, x, 2, 6, 3, 7), by2 = __builtin_shufflevector(b, y, 2, 6, 3, 7);
    float* into = to + c * to_step + r;
    *reinterpret_cast<Unaligned*>(into) = __builtin_shufflevector(ax, by, 0, 4, 1, 5);
    *reinterpret_cast<Unaligned*>(into + to_step) = __builtin_shufflevector(ax, by, 2, 6, 3, 7);
    *reinterpret_cast<Unaligned*>(into + 2 * to_step) = __builtin_shufflevector(ax2, by2, 0, 4, 1, 5);
    *reinterpret_cast<Unaligned*>(into + 3 * to_step) = __builtin_shufflevector(ax2, by2, 2, 6, 3, 7);
  };
  int64_t fours_down = rows & ~3, fours_across = columns & ~3, longest = by_rows ? fours_across : fours_down;
  for (int64_t first = 0; first < longest; first += kPacked)
    for (int64_t channel = 0; channel < (by_rows ? fours_down : fours_across); channel += 4)
      for (int64_t each = first; each < std::min(longest, first + kPacked); each += 4)
        by_rows ? four(channel, each) : four(each, channel);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < fours_down ? fours_across : 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
}

// Results of rows, laid out as (rows, lanes), to where they belong: `at` has each row's place in the first lane.
inline void store(const float* from, int lanes, int64_t channels, const int64_t* at, int64_t count, float* to, int64_t lane) {
  for (int64_t r = 0; r < count;) {
    int64_t run = 1;
    while (r + run < count && at[r + run] == at[r] + run) ++run;
    transpose(from + r * lanes, lanes, to + at[r], lane, run, channels, false);
    r += run;
  }
}

// The products of all rows with the panel of some channels, stored a block of rows at a time.
inline void multiply(
    const float* image, const Offsets& rows, const Offsets& depth, const float* panel, int lanes, int64_t channels,
    const Offsets& at, float* to, int64_t lane) {
  std::vector<float> sums(whole(kBlockRows) * lanes);
  for (int64_t first = 0; first < int64_t(rows.size()); first += kBlockRows) {
    int64_t count = std::min<int64_t>(kBlockRows, rows.size() - first);
    std::fill_n(sums.data(), whole(count) * lanes, 0.f);
    add_products(image, rows.data() + first, count, depth.data(), depth.size(), panel, lanes, sums.data());
    store(sums.data(), lanes, channels, at.data() + first, count, to, lane);
  }
}

template <class G>
void forward(const float* image, Planes in, const float* weight, int64_t window[2], float* result, Planes out, const G& g) {
  std::vector<float> copy;
  image = padded(image, in, g.padding, g.padding, copy);
  Offsets rows = offsets(in.n, in.c * in.plane(), grid(out.size[0], out.size[1], g.stride[0] * in.size[1], g.stride[1]));
  Offsets depth = offsets(in.c, in.plane(), grid(window[0], window[1], g.dilation[0] * in.size[1], g.dilation[1]));
  Offsets at = offsets(out.n, out.c * out.plane(), grid(1, out.plane(), 0, 1));
  int64_t deep = depth.size();
  std::vector<float> panel(deep * 2 * kLanes);
  for (int64_t o = 0; o < out.c;) {
    int lanes = lanes_for(out.c - o);
    int64_t channels = std::min<int64_t>(lanes, out.c - o);
    if (channels < lanes) std::fill(panel.begin(), panel.end(), 0.f);
    transpose(weight + o * deep, deep, panel.data(), lanes, channels, deep, true);
    multiply(image, rows, depth, panel.data(), lanes, channels, at, result + o * out.plane(), out.plane());
    o += channels;
  }
}

// The gradient (N, in, *size) of an image from that of the result, (N, out, *size).
template <class G>
void image_gradient(const float* gradient, Planes in, const float* weight, int64_t window[2], float* result, Planes out, const G& g) {
  std::fill_n(result, out.n * out.c * out.plane(), 0.f);
  Planes inner = in;
  int64_t before[2] = {}, after[2] = {};
  for (int axis = 0; axis < 2; ++axis) {  // the places of the result that a tap of any window asks for
    int64_t last = out.size[axis] - 1 + g.padding[axis];
    before[axis] = std::max<int64_t>(0, (window[axis] - 1) * g.dilation[axis] - g.padding[axis]);
    after[axis] = std::max<int64_t>(0, last / g.stride[axis] - in.size[axis] + 1);
  }
  std::vector<float> copy;
  const float* image = padded(gradient, in, before, after, copy);
  int64_t taps = window[0] * window[1], strides = g.stride[0] * g.stride[1];
  std::vector<float> panel(in.c * taps * 2 * kLanes);
  for (int64_t phase = 0; phase < strides; ++phase) {
    int64_t begin[2] = {phase / g.stride[1], phase % g.stride[1]}, count[2];
    for (int axis = 0; axis < 2; ++axis)
      count[axis] = begin[axis] < out.size[axis] ? (out.size[axis] - begin[axis] - 1) / g.stride[axis] + 1 : 0;
    Offsets chosen, within;
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t y = begin[0] + g.padding[0] - tap / window[1] * g.dilation[0];
      int64_t x = begin[1] + g.padding[1] - tap % window[1] * g.dilation[1];
      if (y % g.stride[0] || x % g.stride[1]) continue;
      chosen.push_back(tap);
      within.push_back((y / g.stride[0] + before[0]) * in.size[1] + x / g.stride[1] + before[1]);
    }
    if (chosen.empty() || !count[0] || !count[1]) continue;
    Offsets rows = offsets(in.n, in.c * in.plane(), grid(count[0], count[1], in.size[1], 1));
    Offsets depth = offsets(inner.c, in.plane(), within);
    Offsets at = offsets(out.n, out.c * out.plane(), grid(count[0], count[1], g.stride[0] * out.size[1], g.stride[1]));
    for (int64_t& each : at) each += begin[0] * out.size[1] + begin[1];
    for (int64_t o = 0; o < out.c;) {
      int lanes = lanes_for(out.c - o);
      int64_t channels = std::min<int64_t>(lanes, out.c - o);
      float* to = panel.data();
      for (int64_t c = 0; c < inner.c; ++c)
        for (int64_t tap : chosen) {
          const float* from = weight + (c * out.c + o) * taps + tap;
          for (int64_t lane = 0; lane < lanes; ++lane) *to++ = lane < channels ? from[lane * taps] : 0;
        }
      multiply(image, rows, depth, panel.data(), lanes, channels, at, result + o * out.plane(), out.plane());
      o += channels;
    }
  }
}

// The gradient (out, in, *window) of a weight from an image and the gradient of the channels from `first` on.
template <class G>
void weight_gradient(const float* image, Planes in, const float* gradient, Planes out, int64_t first, int64_t last, int64_t window[2], float* result, const G& g) {
  std::vector<float> copy;
  image = padded(image, in, g.padding, g.padding, copy);
  Offsets rows = offsets(in.c, in.plane(), grid(window[0], window[1], g.dilation[0] * in.size[1], g.dilation[1]));
  Offsets depth = offsets(in.n, in.c * in.plane(), grid(out.size[0], out.size[1], g.stride[0] * in.size[1], g.stride[1]));
  int64_t count = rows.size(), deep = depth.size(), plane = out.plane();
  Offsets at = grid(1, count, 0, 1);
  std::vector<float> panel(kBlockDepth * 2 * kLanes), sums(whole(count) * 2 * kLanes);
  for (int64_t o = first; o < last;) {
    int lanes = lanes_for(last - o);
    int64_t channels = std::min<int64_t>(lanes, last - o);
    std::fill(sums.begin(), sums.end(), 0.f);
    if (channels < lanes) std::fill(panel.begin(), panel.end(), 0.f);
    for (int64_t d = 0; d < deep; d += kBlockDepth) {
      int64_t part = std::min(kBlockDepth, deep - d);
      for (int64_t place = 0; place < part;) {  // of one image at a time
        int64_t n = (d + place) / plane, p = (d + place) % plane, run = std::min(part - place, plane - p);
        const float* from = gradient + (n * out.c + o) * plane + p;
        transpose(from, plane, panel.data() + place * lanes, lanes, channels, run, true);
        place += run;
      }
      add_products(image, rows.data(), count, depth.data() + d, part, panel.data(), lanes, sums.data());
    }
    store(sums.data(), lanes, channels, at.data(), count, result + o * count, count);
    o += channels;
  }
}

}  // namespace direct
