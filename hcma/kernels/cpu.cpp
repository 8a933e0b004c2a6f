// The operations that MindSpore's own CPU kernels are slow at, as custom operations.
//
// Every function takes MindSpore's arguments: params are the inputs, then the outputs; 0 means done. Sums run in an
// order that does not depend on the number of threads. NaN and Inf pass through.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kRowsAtOnce = 8;  // products kept in registers
constexpr int64_t kParallelFrom = 1 << 15;  // floats below which threads cost more than they save
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

float *floats(void **params, int number) { return static_cast<float *>(params[number]); }

int32_t *integers(void **params, int number) { return static_cast<int32_t *>(params[number]); }

// Where x beats best; a NaN always does, and stays.
Ints beats(Floats x, Floats best) { return (x > best) | (x != x); }

// (count, width) rows into blocks of 16 rows, transposed, so that one load holds one column of 16 rows.
void pack(const float *rows, int64_t count, int64_t width, Floats *packed) {
  for (int64_t block = 0; block * kLanes < count; ++block) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t row = block * kLanes + lane;
      for (int64_t k = 0; k < width; ++k) packed[block * width + k][lane] = row < count ? rows[row * width + k] : 0;
    }
  }
}

// The products of `Rows` rows with a packed block.
template <int64_t Rows>
void multiply(const float *rows, const Floats *packed, int64_t width, Floats *product) {
  Floats sum[Rows] = {};
  for (int64_t k = 0; k < width; ++k) {
    for (int64_t row = 0; row < Rows; ++row) sum[row] += rows[row * width + k] * packed[k];
  }
  for (int64_t row = 0; row < Rows; ++row) product[row] = sum[row];
}

// As many rows as are there, at most `Most`; returns how many.
template <int64_t Most>
int64_t multiply_some(const float *rows, int64_t count, const Floats *packed, int64_t width, Floats *product) {
  if constexpr (Most > 1) {
    if (count < Most) return multiply_some<Most - 1>(rows, count, packed, width, product);
  }
  multiply<Most>(rows, packed, width, product);
  return Most;
}

// The best of the 16 lanes, the first among equals, by halving their number four times.
void best_lane(Floats value, Ints at, Ints lane, float *best, int32_t *best_at) {
  for (int32_t step = kLanes / 2; step > 0; step /= 2) {
    const Floats other = __builtin_shuffle(value, lane ^ step);
    const Ints other_at = __builtin_shuffle(at, lane ^ step);
    const Ints better = (value == value) & (beats(other, value) | ((other == value) & (other_at < at)));
    value = better ? other : value;
    at = better ? other_at : at;
  }
  *best = value[0], *best_at = at[0];
}

void add(float *sum, float factor, const float *row, int64_t width) {
  for (int64_t k = 0; k < width; ++k) sum[k] += factor * row[k];
}

}  // namespace

extern "C" {

#define ARGUMENTS int count, void **params, int *ranks, int64_t **shapes, const char **types, void *stream, void *extra

// word (T, L, E), patch (I, P, E) -> the maxima of their products over patches (T, L, I) and their positions, the
// maxima over words (T, I, P) and their positions. The products themselves never leave the registers.
int best_matches(ARGUMENTS) {
  const float *word = floats(params, 0), *patch = floats(params, 1);
  float *patch_best = floats(params, 2), *word_best = floats(params, 4);
  int32_t *patch_at = integers(params, 3), *word_at = integers(params, 5);
  const int64_t texts = shapes[0][0], words = shapes[0][1], width = shapes[0][2];
  const int64_t images = shapes[1][0], patches = shapes[1][1], blocks = (patches + kLanes - 1) / kLanes;
  const Floats nothing = Floats{} - INFINITY;
  const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  std::vector<Floats> packed(images * blocks * width);
#pragma omp parallel for if (images * patches * width > kParallelFrom)
  for (int64_t i = 0; i < images; ++i) pack(patch + i * patches * width, patches, width, &packed[i * blocks * width]);

#pragma omp parallel if (texts * words * images * patches > kParallelFrom)
  {
    std::vector<Floats> product(words), best(words);
    std::vector<Ints> best_at(words);
#pragma omp for
    for (int64_t t = 0; t < texts; ++t) {
      for (int64_t i = 0; i < images; ++i) {
        for (int64_t l = 0; l < words; ++l) best[l] = nothing, best_at[l] = Ints{};
        for (int64_t b = 0; b < blocks; ++b) {
          const Floats *columns = &packed[(i * blocks + b) * width];
          for (int64_t l = 0; l < words;)
            l += multiply_some<kRowsAtOnce>(word + (t * words + l) * width, words - l, columns, width, &product[l]);
          const Ints position = lane + static_cast<int32_t>(b * kLanes), inside = position < static_cast<int32_t>(patches);
          Floats top = product[0];
          Ints top_at{};
          for (int64_t l = 0; l < words; ++l) {
            const Ints better = beats(product[l], best[l]) & inside, higher = beats(product[l], top);
            best[l] = better ? product[l] : best[l];
            best_at[l] = better ? position : best_at[l];
            top = higher ? product[l] : top;
            top_at = higher ? Ints{} + static_cast<int32_t>(l) : top_at;
          }
          const int64_t first = (t * images + i) * patches + b * kLanes;
          for (int64_t p = 0; p < kLanes && b * kLanes + p < patches; ++p) {
            word_best[first + p] = top[p], word_at[first + p] = top_at[p];
          }
        }
        for (int64_t l = 0; l < words; ++l) {
          const int64_t at = (t * words + l) * images + i;
          best_lane(best[l], best_at[l], lane, patch_best + at, patch_at + at);
        }
      }
    }
  }
  return 0;
}

// word, patch, both positions and the gradients of both maxima -> the gradients of word and patch. Each gradient goes
// to the one product that won, so the sums are over T L I + T I P rows, not over all products.
int best_matches_grad(ARGUMENTS) {
  const float *word = floats(params, 0), *patch = floats(params, 1);
  const int32_t *patch_at = integers(params, 2), *word_at = integers(params, 3);
  const float *from_patch = floats(params, 4), *from_word = floats(params, 5);
  float *dword = floats(params, 6), *dpatch = floats(params, 7);
  const int64_t texts = shapes[0][0], words = shapes[0][1], width = shapes[0][2];
  const int64_t images = shapes[1][0], patches = shapes[1][1];

  auto gradients_of = [&](int64_t t, int64_t i, float *dwords, float *dpatches) {
    const float *text = word + t * words * width, *image = patch + i * patches * width;
    for (int64_t l = 0; l < words; ++l) {
      const int64_t at = (t * words + l) * images + i, p = patch_at[at];
      if (from_patch[at] == 0) continue;  // what is no word
      if (dwords) add(dwords + l * width, from_patch[at], image + p * width, width);
      if (dpatches) add(dpatches + p * width, from_patch[at], text + l * width, width);
    }
    for (int64_t p = 0; p < patches; ++p) {
      const int64_t at = (t * images + i) * patches + p, l = word_at[at];
      if (dwords) add(dwords + l * width, from_word[at], image + p * width, width);
      if (dpatches) add(dpatches + p * width, from_word[at], text + l * width, width);
    }
  };

  // Once by text and once by image: no two threads write to the same place.
#pragma omp parallel if (texts * words * images * patches > kParallelFrom)
  {
#pragma omp for
    for (int64_t t = 0; t < texts; ++t) {
      float *dwords = dword + t * words * width;
      std::fill(dwords, dwords + words * width, 0.0f);
      for (int64_t i = 0; i < images; ++i) gradients_of(t, i, dwords, nullptr);
    }
#pragma omp for
    for (int64_t i = 0; i < images; ++i) {
      float *dpatches = dpatch + i * patches * width;
      std::fill(dpatches, dpatches + patches * width, 0.0f);
      for (int64_t t = 0; t < texts; ++t) gradients_of(t, i, nullptr, dpatches);
    }
  }
  return 0;
}

// x (N, D), gain (D), shift (D), eps (1) -> the layer norm of the rows (N, D), their means (N) and 1 / deviations (N).
int layer_norm(ARGUMENTS) {
  const float *x = floats(params, 0), *gain = floats(params, 1), *shift = floats(params, 2), eps = *floats(params, 3);
  float *y = floats(params, 4), *means = floats(params, 5), *inverses = floats(params, 6);
  const int64_t rows = shapes[0][0], width = shapes[0][1];
#pragma omp parallel for if (rows * width > kParallelFrom)
  for (int64_t n = 0; n < rows; ++n) {
    const float *row = x + n * width;
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < width; ++k) sum += row[k];
    const float mean = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int64_t k = 0; k < width; ++k) squares += (row[k] - mean) * (row[k] - mean);
    const float inverse = 1 / std::sqrt(squares / width + eps);
    for (int64_t k = 0; k < width; ++k) y[n * width + k] = (row[k] - mean) * inverse * gain[k] + shift[k];
    means[n] = mean;
    inverses[n] = inverse;
  }
  return 0;
}

// x (N, D), gain (D), means (N), 1 / deviations (N), dy (N, D) -> the gradients of x, gain and shift.
int layer_norm_grad(ARGUMENTS) {
  const float *x = floats(params, 0), *gain = floats(params, 1), *means = floats(params, 2);
  const float *inverses = floats(params, 3), *dy = floats(params, 4);
  float *dx = floats(params, 5), *dgain = floats(params, 6), *dshift = floats(params, 7);
  const int64_t rows = shapes[0][0], width = shapes[0][1], parts = 16;  // of the rows, whose sums are added in order
  std::vector<float> sums(2 * parts * width);
#pragma omp parallel for if (rows * width > kParallelFrom)
  for (int64_t part = 0; part < parts; ++part) {
    float *gains = &sums[2 * part * width], *shifts = gains + width;
    for (int64_t n = rows * part / parts; n < rows * (part + 1) / parts; ++n) {
      const float *row = x + n * width, *d = dy + n * width, mean = means[n], inverse = inverses[n];
      float along = 0, total = 0;
#pragma omp simd reduction(+ : along, total)
      for (int64_t k = 0; k < width; ++k) {
        along += d[k] * gain[k] * (row[k] - mean) * inverse;
        total += d[k] * gain[k];
      }
      for (int64_t k = 0; k < width; ++k) {
        const float normal = (row[k] - mean) * inverse;
        dx[n * width + k] = (d[k] * gain[k] - (total + normal * along) / width) * inverse;
        gains[k] += d[k] * normal;
        shifts[k] += d[k];
      }
    }
  }
  for (int64_t k = 0; k < width; ++k) {
    dgain[k] = dshift[k] = 0;
    for (int64_t part = 0; part < parts; ++part) {
      dgain[k] += sums[2 * part * width + k];
      dshift[k] += sums[(2 * part + 1) * width + k];
    }
  }
  return 0;
}

// y (..., D), the softmax of its last axis, and dy -> the gradient of what went into the softmax.
int softmax_grad(ARGUMENTS) {
  const float *y = floats(params, 0), *dy = floats(params, 1);
  float *dx = floats(params, 2);
  const int64_t width = shapes[0][ranks[0] - 1];
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < ranks[0]; ++axis) rows *= shapes[0][axis];
#pragma omp parallel for if (rows * width > kParallelFrom)
  for (int64_t n = 0; n < rows; ++n) {
    const float *row = y + n * width, *d = dy + n * width;
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t k = 0; k < width; ++k) along += row[k] * d[k];
    for (int64_t k = 0; k < width; ++k) dx[n * width + k] = row[k] * (d[k] - along);
  }
  return 0;
}

}  // extern "C"
