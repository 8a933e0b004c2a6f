// The operations that MindSpore's own CPU kernels are slow at, as custom operations. Every function takes MindSpore's
// arguments: params are the inputs, then the outputs; 0 means done. Sums run in an order that does not depend on the
// number of threads. NaN and Inf pass through.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int64_t kLanes = __BIGGEST_ALIGNMENT__ / 4;  // of the widest registers; wider vectors live in memory
constexpr int64_t kRowsAtOnce = 8;  // products kept in registers
constexpr int64_t kParallelFrom = 1 << 15;  // floats below which threads cost more than they save
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

static float *floats(void **params, int number) { return static_cast<float *>(params[number]); }
static int32_t *integers(void **params, int number) { return static_cast<int32_t *>(params[number]); }

// Where x beats best; a NaN always does, and stays.
static Ints beats(Floats x, Floats best) { return (x > best) | (x != x); }

// (count, width) rows into blocks of kLanes rows, transposed, so that one load holds one column of them.
static void pack(const float *rows, int64_t count, int64_t width, Floats *packed) {
  for (int64_t row = 0; row < (count + kLanes - 1) / kLanes * kLanes; ++row) {
    Floats *block = packed + row / kLanes * width;
    for (int64_t k = 0; k < width; ++k) block[k][row % kLanes] = row < count ? rows[row * width + k] : 0;
  }
}

// The products of kRowsAtOnce rows with a packed block.
static void multiply(const float *rows, const Floats *packed, int64_t width, Floats *product) {
  Floats sum[kRowsAtOnce] = {};
  for (int64_t k = 0; k < width; ++k) {
    for (int64_t row = 0; row < kRowsAtOnce; ++row) sum[row] += rows[row * width + k] * packed[k];
  }
  std::copy_n(sum, kRowsAtOnce, product);
}

// The best of the lanes, the first among equals, by halving their number again and again.
static void best_lane(Floats value, Ints at, Ints lane, float *best, int32_t *best_at) {
  for (int32_t step = kLanes / 2; step > 0; step /= 2) {
    const Floats other = __builtin_shuffle(value, lane ^ step);
    const Ints other_at = __builtin_shuffle(at, lane ^ step);
    const Ints better = (value == value) & (beats(other, value) | ((other == value) & (other_at < at)));
    value = better ? other : value, at = better ? other_at : at;
  }
  *best = value[0], *best_at = at[0];
}

static void add(float *sum, float factor, const float *row, int64_t width) {
  for (int64_t k = 0; k < width; ++k) sum[k] += factor * row[k];
}

// Pictures (B, N, C) and a padded convolution's 3 x 3 windows (B, M, 9 C): shapes are of one, (height, width) of
// both, and of the other, `result`. visit(place in pictures, place in windows, floats) for each row inside a window.
template <typename Visit>
static int visit_windows(int64_t **shapes, int64_t channels, float *result, Visit visit) {
  const int64_t height = shapes[1][0], width = shapes[1][1], down = shapes[2][0], across = shapes[2][1];
  const int64_t stride = down == height && across == width ? 1 : 2, size = shapes[3][1] * shapes[3][2];
#pragma omp parallel for if (shapes[0][0] * down * across * 9 * channels > kParallelFrom)
  for (int64_t b = 0; b < shapes[0][0]; ++b) {
    std::fill_n(result + b * size, size, 0.0f);
    for (int64_t window = 0; window < down * across; ++window) {
      const int64_t left = window % across * stride - 1, top = window / across * stride - 1;
      const int64_t first = std::max<int64_t>(left, 0), count = std::min(left + 3, width) - first;
      for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + 3, height); ++y) {
        const int64_t place = ((b * down * across + window) * 3 + y - top) * 3 + first - left;
        visit(((b * height + y) * width + first) * channels, place * channels, count * channels);
      }
    }
  }
  return 0;
}

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
  Ints lane;
  for (int32_t k = 0; k < kLanes; ++k) lane[k] = k;
  std::vector<Floats> packed(images * blocks * width);
#pragma omp parallel for if (images * patches * width > kParallelFrom)
  for (int64_t i = 0; i < images; ++i) pack(patch + i * patches * width, patches, width, &packed[i * blocks * width]);
  const int64_t padded = (words + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
#pragma omp parallel for if (texts * words * images * patches > kParallelFrom)
  for (int64_t t = 0; t < texts; ++t) {
    std::vector<float> text(padded * width);
    std::copy(word + t * words * width, word + (t + 1) * words * width, text.begin());
    std::vector<Floats> product(padded);
    for (int64_t i = 0; i < images; ++i) {
      std::vector<Floats> best(words, Floats{} - INFINITY);
      std::vector<Ints> best_at(words);
      for (int64_t b = 0; b < blocks; ++b) {
        const Floats *columns = &packed[(i * blocks + b) * width];
        for (int64_t l = 0; l < words; l += kRowsAtOnce) multiply(&text[l * width], columns, width, &product[l]);
        const Ints position = lane + int32_t(b * kLanes), inside = position < int32_t(patches);
        Floats top = product[0];
        Ints top_at{};
        for (int64_t l = 0; l < words; ++l) {
          const Ints better = beats(product[l], best[l]) & inside, higher = beats(product[l], top);
          best[l] = better ? product[l] : best[l], best_at[l] = better ? position : best_at[l];
          top = higher ? product[l] : top, top_at = higher ? Ints{} + int32_t(l) : top_at;
        }
        const int64_t first = (t * images + i) * patches + b * kLanes;
        for (int64_t p = 0; p < std::min(kLanes, patches - b * kLanes); ++p)
          word_best[first + p] = top[p], word_at[first + p] = top_at[p];
      }
      for (int64_t l = 0; l < words; ++l) {
        const int64_t at = (t * words + l) * images + i;
        best_lane(best[l], best_at[l], lane, patch_best + at, patch_at + at);
      }
    }
  }
  return 0;
}

// word, patch, both positions and the gradients of both maxima -> the gradients of word and patch. Each gradient goes
// to the one product that won, so the sums are over T L I + T I P rows, not over all products.
int best_matches_grad(ARGUMENTS) {
  float *word = floats(params, 0), *patch = floats(params, 1), *from_patch = floats(params, 4);
  float *from_word = floats(params, 5), *dword = floats(params, 6), *dpatch = floats(params, 7);
  const int32_t *patch_at = integers(params, 2), *word_at = integers(params, 3);
  const int64_t texts = shapes[0][0], words = shapes[0][1], width = shapes[0][2];
  const int64_t images = shapes[1][0], patches = shapes[1][1];
  std::fill_n(dword, texts * words * width, 0.0f), std::fill_n(dpatch, images * patches * width, 0.0f);
  for (const bool by_text : {true, false}) {  // and by image: no two threads write to the same place
#pragma omp parallel for if (texts * words * images * patches > kParallelFrom)
    for (int64_t outer = 0; outer < (by_text ? texts : images); ++outer) {
      for (int64_t inner = 0; inner < (by_text ? images : texts); ++inner) {
        const int64_t t = by_text ? outer : inner, i = by_text ? inner : outer;
        auto pull = [&](int64_t l, int64_t p, float slope) {
          const int64_t text = (t * words + l) * width, image = (i * patches + p) * width;
          by_text ? add(dword + text, slope, patch + image, width) : add(dpatch + image, slope, word + text, width);
        };
        for (int64_t l = 0; l < words; ++l) {
          const int64_t at = (t * words + l) * images + i;
          if (from_patch[at] != 0) pull(l, patch_at[at], from_patch[at]);  // else it is no word
        }
        const int64_t at = (t * images + i) * patches;
        for (int64_t p = 0; p < patches; ++p) pull(word_at[at + p], p, from_word[at + p]);
      }
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
    means[n] = mean, inverses[n] = inverse;
  }
  return 0;
}

// x (N, D), gain (D), means (N), 1 / deviations (N), dy (N, D) -> the gradients of x, gain and shift.
int layer_norm_grad(ARGUMENTS) {
  float *x = floats(params, 0), *gain = floats(params, 1), *means = floats(params, 2), *inverses = floats(params, 3);
  float *dy = floats(params, 4), *dx = floats(params, 5), *dgain = floats(params, 6), *dshift = floats(params, 7);
  const int64_t rows = shapes[0][0], width = shapes[0][1], parts = 16;  // of the rows, whose sums are added in order
  std::vector<float> sums(2 * parts * width);
#pragma omp parallel for if (rows * width > kParallelFrom)
  for (int64_t part = 0; part < parts; ++part) {
    float *gains = &sums[2 * part * width], *shifts = gains + width;
    for (int64_t n = rows * part / parts; n < rows * (part + 1) / parts; ++n) {
      const float *row = x + n * width, *d = dy + n * width, mean = means[n], inverse = inverses[n];
      float along = 0, total = 0;
#pragma omp simd reduction(+ : along, total)
      for (int64_t k = 0; k < width; ++k) along += d[k] * gain[k] * (row[k] - mean) * inverse, total += d[k] * gain[k];
      for (int64_t k = 0; k < width; ++k) {
        const float normal = (row[k] - mean) * inverse;
        dx[n * width + k] = (d[k] * gain[k] - (total + normal * along) / width) * inverse;
        gains[k] += d[k] * normal, shifts[k] += d[k];
      }
    }
  }
  std::fill_n(dgain, width, 0.0f), std::fill_n(dshift, width, 0.0f);
  for (int64_t part = 0; part < parts; ++part)
    add(dgain, 1, &sums[2 * part * width], width), add(dshift, 1, &sums[(2 * part + 1) * width], width);
  return 0;
}

// y (N, D), the softmax of its rows, and dy -> the gradient of what went into the softmax.
int softmax_grad(ARGUMENTS) {
  float *y = floats(params, 0), *dy = floats(params, 1), *dx = floats(params, 2);
  const int64_t rows = shapes[0][0], width = shapes[0][1];
#pragma omp parallel for if (rows * width > kParallelFrom)
  for (int64_t n = 0; n < rows * width; n += width) {
    float along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t k = n; k < n + width; ++k) along += y[k] * dy[k];
    for (int64_t k = n; k < n + width; ++k) dx[k] = y[k] * (dy[k] - along);
  }
  return 0;
}

// Group ids (C, G) and (G, B), row (C), column (B) -> row + column where one has an id of the other, else 0 (C, B).
int targets(ARGUMENTS) {
  const int64_t *own = static_cast<int64_t *>(params[0]), *other = static_cast<int64_t *>(params[1]);
  float *row = floats(params, 2), *column = floats(params, 3), *y = floats(params, 4);
  const int64_t rows = shapes[0][0], kinds = shapes[0][1], columns = shapes[1][1];
#pragma omp parallel for if (rows * columns > kParallelFrom)
  for (int64_t n = 0; n < rows; ++n) {
    float *line = y + n * columns;
    std::fill_n(line, columns, 0.0f);
    for (int64_t kind = 0; kind < kinds; ++kind) {
      const int64_t id = own[n * kinds + kind], *ids = other + kind * columns;
      for (int64_t k = 0; k < columns; ++k) {
        const float both = row[n] + column[k], old = line[k];  // read in any case, so that the loop is one of vectors
        line[k] = ids[k] == id ? both : old;
      }
    }
  }
  return 0;
}

// x (B, N, C), anything (height, width), anything (windows down, across) -> the windows over x (B, M, 9 C).
int neighbourhoods(ARGUMENTS) {
  float *x = floats(params, 0), *y = floats(params, 3);
  auto copy = [=](int64_t from, int64_t to, int64_t n) { std::copy_n(x + from, n, y + to); };
  return visit_windows(shapes, shapes[0][2], y, copy);
}

// The gradient of the windows (B, M, 9 C) and the same two -> the gradient of x.
int neighbourhoods_grad(ARGUMENTS) {
  float *dy = floats(params, 0), *dx = floats(params, 3);
  auto pull = [=](int64_t to, int64_t from, int64_t n) { add(dx + to, 1, dy + from, n); };
  return visit_windows(shapes, shapes[0][2] / 9, dx, pull);
}

}  // extern "C"
