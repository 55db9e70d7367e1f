// Activations and steps of optimizers in float32, a value at a time: NumPy passes over its arrays for each part of them
// (kernels/pointwise has the same). Compiled for each width of vectors that machines have.
#include <cstdint>
#include <cstring>

#pragma GCC push_options
#pragma GCC optimize("O3", "no-trapping-math", "no-math-errno")
namespace pointwise {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_WIDTH __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define EACH_WIDTH
#endif
#define INLINE __attribute__((always_inline)) inline

INLINE float of_bits(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// exp within 2 units in the last place: 2^n * exp(r) with r in [-log(2) / 2, log(2) / 2], by Cephes' polynomial.
INLINE float exponential(float x) {
  x = x < -104.f ? -104.f : x > 89.f ? 89.f : x;
  float n = x * 1.44269504f + 12582912.f;  // 1.5 * 2^23: the fraction is rounded away
  n -= 12582912.f;
  float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  auto whole = static_cast<int32_t>(n);
  int32_t half = whole >> 1;  // in two factors, which are finite
  return p * of_bits((half + 127) << 23) * of_bits((whole - half + 127) << 23);
}

INLINE float logistic(float x) { return 1.f / (1.f + exponential(-x)); }

// Near 0 the difference from 1 would lose what is small: Taylor's polynomial there.
INLINE float hyperbolic_tangent(float x) {
  float s = x * x, p = 62.f / 2835.f;
  p = p * s - 17.f / 315.f;
  p = p * s + 2.f / 15.f;
  p = p * s - 1.f / 3.f;
  float near = x + x * s * p, far = 2.f * logistic(2.f * x) - 1.f;
  return s < 0.0625f ? near : far;
}

// As special.py has it, on [-3.74, 3.74], and 1 beyond.
INLINE float erf(float x) {
  constexpr float kLimit = 3.7439211627767994f;
  float c = x < -kLimit ? -kLimit : x > kLimit ? kLimit : x, s = c * c;
  float p = 0.00022905065861350646f;
  p = p * s + 0.0034082910107109506f;
  p = p * s + 0.050955695062380861f;
  p = p * s + 0.18520832239976145f;
  p = p * s + 1.128379143519084f;
  float q = -1.1791602954361697e-7f;
  q = q * s + 0.000023547966471313185f;
  q = q * s + 0.0010179625278914885f;
  q = q * s + 0.014070470171167667f;
  q = q * s + 0.11098505178285362f;
  q = q * s + 0.49746925110067538f;
  q = q * s + 1.f;
  return x >= kLimit ? 1.f : x <= -kLimit ? -1.f : c * p / q;
}

constexpr float kSqrtHalf = 0.70710678f, kSqrt2Pi = 0.79788456f, kCubic = 0.044715f * kSqrt2Pi, kDensity = 0.39894228f;

// 1 / (1 + exp(-2 u)) is (1 + tanh(u)) / 2.
INLINE float bent(float x) { return logistic(2.f * x * (kSqrt2Pi + kCubic * x * x)); }

INLINE float silu(float x) { return x * logistic(x); }
INLINE float gelu(float x) { return 0.5f * x * (1.f + erf(x * kSqrtHalf)); }
INLINE float gelu_tanh(float x) { return x * bent(x); }

INLINE float silu_slope(float x) {
  float s = logistic(x);
  return s * (1.f + x * (1.f - s));
}
INLINE float gelu_slope(float x) {
  return 0.5f * (1.f + erf(x * kSqrtHalf)) + x * kDensity * exponential(-0.5f * x * x);
}
INLINE float gelu_tanh_slope(float x) {
  float s = bent(x);
  return s * (1.f + 2.f * x * (1.f - s) * (kSqrt2Pi + 3.f * kCubic * x * x));
}

using Function = void (*)(float*, const float*, const float*, float, int64_t);

#define LOOP(name, formula)                                                                                \
  EACH_WIDTH inline void name(                                                                             \
      float* __restrict out, const float* __restrict a, const float* __restrict b, float number, int64_t count) { \
    for (int64_t i = 0; i < count; ++i) out[i] = formula;                                                  \
  }
LOOP(silu_of, silu(a[i]))
LOOP(gelu_of, gelu(a[i]))
LOOP(gelu_tanh_of, gelu_tanh(a[i]))
LOOP(silu_gradient, silu_slope(a[i]) * b[i])
LOOP(gelu_gradient, gelu_slope(a[i]) * b[i])
LOOP(gelu_tanh_gradient, gelu_tanh_slope(a[i]) * b[i])
LOOP(lerp, out[i] + number * (a[i] - out[i]))
LOOP(addcmul, out[i] + number * a[i] * b[i])
LOOP(addcdiv, out[i] + number * a[i] / b[i])
#undef LOOP

// A step of an LSTM: the gates i f j o of each row, the first two and the last halved, are activated where they are.
EACH_WIDTH inline void lstm(
    float* gates, const float* more, const float* before, float* cell, float* bent_cell, float* state, int64_t rows,
    int64_t width) {
  for (; rows--; gates += 4 * width, more += 4 * width, before += width, cell += width, bent_cell += width, state += width)
#pragma GCC ivdep
    for (int64_t k = 0; k < width; ++k) {
      float part[4];
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        float sum = gates[g * width + k] + more[g * width + k];
        part[g] = g == 2 ? hyperbolic_tangent(sum) : logistic(2.f * sum);
      }
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) gates[g * width + k] = part[g];
      float value = part[1] * before[k] + part[0] * part[2], bent = hyperbolic_tangent(value);
      cell[k] = value;
      bent_cell[k] = bent;
      state[k] = part[3] * bent;
    }
}

// The gradients of a step's gates from those of its state and, updated to those of the cell before, of its cell.
EACH_WIDTH inline void lstm_gradient(
    const float* i, const float* f, const float* j, const float* o, const float* bent, const float* before,
    const float* of_state, float* of_cell, float* result, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, result += 4 * width)
#pragma GCC ivdep
    for (int64_t k = r * width; k < (r + 1) * width; ++k) {
      float c = of_cell[k] + of_state[k] * o[k] * (1.f - bent[k] * bent[k]);
      float* to = result + (k - r * width);
      to[0] = c * j[k] * (i[k] * (1.f - i[k]));
      to[width] = c * before[k] * (f[k] * (1.f - f[k]));
      to[2 * width] = c * i[k] * (1.f - j[k] * j[k]);
      to[3 * width] = of_state[k] * bent[k] * (o[k] * (1.f - o[k]));
      of_cell[k] = c * f[k];
    }
}

struct Named {
  const char* name;
  int operands;
  Function function;
};

constexpr Named kFunctions[] = {
    {"silu", 1, silu_of},           {"gelu", 1, gelu_of},           {"gelu_tanh", 1, gelu_tanh_of},
    {"silu", 2, silu_gradient},     {"gelu", 2, gelu_gradient},     {"gelu_tanh", 2, gelu_tanh_gradient},
    {"lerp", 1, lerp},              {"addcmul", 2, addcmul},        {"addcdiv", 2, addcdiv},
};

inline Function found(const char* name, int operands) {
  for (const Named& each : kFunctions)
    if (each.operands == operands && !std::strcmp(each.name, name)) return each.function;
  return nullptr;
}

}  // namespace pointwise
#pragma GCC pop_options
