// Operations that MindSpore's own CPU kernels are slow at. All take MindSpore's arguments: params are the inputs, then
// the outputs; 0 means done. The order of sums does not depend on the number of threads. NaN and Inf pass through.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

constexpr int64_t kLanes = __BIGGEST_ALIGNMENT__ / 4;  // of the widest registers; wider vectors live in memory
constexpr int64_t kRowsAtOnce = 8;  // products kept in registers
constexpr int64_t kParallelFrom = 1 << 18;  // floats below which threads cost more than they save
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

template <typename T = float> static T *array(void **params, int number) { return static_cast<T *>(params[number]); }
static int64_t size_of(const int64_t *shape, int rank) { return rank ? *shape * size_of(shape + 1, rank - 1) : 1; }

// visit(0) to visit(count - 1), in threads where these are floats enough; 0.
template <typename Visit> static int parallel(int64_t count, int64_t floats_each, Visit visit) {
#pragma omp parallel for if (count * floats_each > kParallelFrom)
  for (int64_t n = 0; n < count; ++n) visit(n);
  return 0;
}

// Where x beats best; a NaN always does, and stays.
static Ints beats(Floats x, Floats best) { return (x > best) | (x != x); }

// The products of kRowsAtOnce rows with a packed block.
static void multiply(const float *rows, const Floats *packed, int64_t width, Floats *product) {
  Floats sum[kRowsAtOnce] = {};
  for (int64_t k = 0; k < width; ++k)
    for (int64_t row = 0; row < kRowsAtOnce; ++row) sum[row] += rows[row * width + k] * packed[k];
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

#if defined(__GLIBC__) && defined(__x86_64__)
#pragma omp declare simd notinbranch
extern "C" float expf(float) noexcept;  // several at once, by libmvec
#endif

template <typename T = float, typename Term> static T sum(int64_t count, Term term) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t k = 0; k < count; ++k) total += term(k);
  return total;
}

static void add(float *y, float a, const float *x, int64_t n) { for (int64_t k = 0; k < n; ++k) y[k] += a * x[k]; }

extern "C" {
#define ARGUMENTS int count, void **params, int *ranks, int64_t **shapes, const char **types, void *stream, void *extra
// word (T, L, E), patch (I, P, E) -> the maxima of their products over patches (T, L, I) and their positions, the
// maxima over words (T, I, P) and their positions. The products themselves never leave the registers.
int best_matches(ARGUMENTS) {
  const float *word = array(params, 0), *patch = array(params, 1);
  float *patch_best = array(params, 2), *word_best = array(params, 4);
  int32_t *patch_at = array<int32_t>(params, 3), *word_at = array<int32_t>(params, 5);
  const int64_t texts = shapes[0][0], words = shapes[0][1], width = shapes[0][2];
  const int64_t images = shapes[1][0], patches = shapes[1][1], blocks = (patches + kLanes - 1) / kLanes;
  Ints lane;
  for (int32_t k = 0; k < kLanes; ++k) lane[k] = k;
  std::vector<Floats> packed(images * blocks * width);  // patches transposed: one load holds kLanes of them
  parallel(images * blocks * kLanes, width, [&](int64_t row) {
    const int64_t i = row / (blocks * kLanes), p = row % (blocks * kLanes);
    for (int64_t k = 0; k < width; ++k)
      packed[row / kLanes * width + k][row % kLanes] = p < patches ? patch[(i * patches + p) * width + k] : 0;
  });
  const int64_t padded = (words + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
  return parallel(texts, words * images * patches * width, [&](int64_t t) {
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
      for (int64_t l = 0, at = t * words * images + i; l < words; ++l, at += images)
        best_lane(best[l], best_at[l], lane, patch_best + at, patch_at + at);
    }
  });
}

// word, patch, both positions and the gradients of both maxima -> the gradients of word and patch. Each gradient goes
// to the one product that won, so the sums are over T L I + T I P rows, not over all products.
int best_matches_grad(ARGUMENTS) {
  float *word = array(params, 0), *patch = array(params, 1), *from_patch = array(params, 4);
  float *from_word = array(params, 5), *dword = array(params, 6), *dpatch = array(params, 7);
  const int32_t *patch_at = array<int32_t>(params, 2), *word_at = array<int32_t>(params, 3);
  const int64_t texts = shapes[0][0], words = shapes[0][1], width = shapes[0][2];
  const int64_t images = shapes[1][0], patches = shapes[1][1];
  std::fill_n(dword, texts * words * width, 0.0f), std::fill_n(dpatch, images * patches * width, 0.0f);
  for (const bool by_text : {true, false})  // and by image: no two threads write to the same place
    parallel(by_text ? texts : images, words * patches * (by_text ? images : texts), [=](int64_t outer) {
      for (int64_t inner = 0; inner < (by_text ? images : texts); ++inner) {
        const int64_t t = by_text ? outer : inner, i = by_text ? inner : outer;
        auto pull = [&](int64_t l, int64_t p, float slope) {
          const int64_t text = (t * words + l) * width, image = (i * patches + p) * width;
          by_text ? add(dword + text, slope, patch + image, width) : add(dpatch + image, slope, word + text, width);
        };
        for (int64_t l = 0, at = t * words * images + i; l < words; ++l, at += images)
          if (from_patch[at] != 0) pull(l, patch_at[at], from_patch[at]);  // else it is no word
        const int64_t at = (t * images + i) * patches;
        for (int64_t p = 0; p < patches; ++p) pull(word_at[at + p], p, from_word[at + p]);
      }
    });
  return 0;
}

// x (N, D), gain (D), shift (D), eps (1) -> the layer norm of the rows (N, D), their means (N) and 1 / deviations (N).
int layer_norm(ARGUMENTS) {
  const float *x = array(params, 0), *gain = array(params, 1), *shift = array(params, 2), eps = *array(params, 3);
  float *y = array(params, 4), *means = array(params, 5), *inverses = array(params, 6);
  const int64_t width = shapes[0][1];
  return parallel(shapes[0][0], width, [=](int64_t n) {
    const float *row = x + n * width, mean = sum(width, [=](int64_t k) { return row[k]; }) / width;
    const float squares = sum(width, [=](int64_t k) { return (row[k] - mean) * (row[k] - mean); });
    const float inverse = 1 / std::sqrt(squares / width + eps);
    for (int64_t k = 0; k < width; ++k) y[n * width + k] = (row[k] - mean) * inverse * gain[k] + shift[k];
    means[n] = mean, inverses[n] = inverse;
  });
}

// x (N, D), gain (D), means (N), 1 / deviations (N), dy (N, D) -> the gradients of x, gain and shift.
int layer_norm_grad(ARGUMENTS) {
  float *x = array(params, 0), *gain = array(params, 1), *means = array(params, 2), *inverses = array(params, 3);
  float *dy = array(params, 4), *dx = array(params, 5), *dgain = array(params, 6), *dshift = array(params, 7);
  const int64_t rows = shapes[0][0], width = shapes[0][1], parts = 16;  // of the rows, whose sums are added in order
  std::vector<float> sums(2 * parts * width);
  parallel(parts, rows / parts * width, [&](int64_t part) {
    float *gains = &sums[2 * part * width], *shifts = gains + width;
    for (int64_t n = rows * part / parts; n < rows * (part + 1) / parts; ++n) {
      const float *row = x + n * width, *d = dy + n * width, mean = means[n], inverse = inverses[n];
      const float total = sum(width, [=](int64_t k) { return d[k] * gain[k]; });
      const float along = sum(width, [=](int64_t k) { return d[k] * gain[k] * (row[k] - mean) * inverse; });
      for (int64_t k = 0; k < width; ++k) {
        const float normal = (row[k] - mean) * inverse;
        dx[n * width + k] = (d[k] * gain[k] - (total + normal * along) / width) * inverse;
        gains[k] += d[k] * normal, shifts[k] += d[k];
      }
    }
  });
  for (int64_t part = 1; part < parts; ++part) add(&sums[0], 1, &sums[2 * part * width], 2 * width);
  return std::copy_n(&sums[0], width, dgain), std::copy_n(&sums[width], width, dshift), 0;
}

// y (N, D), the softmax of its rows, and dy -> the gradient of what went into the softmax.
int softmax_grad(ARGUMENTS) {
  float *y = array(params, 0), *dy = array(params, 1), *dx = array(params, 2);
  const int64_t width = shapes[0][1];
  return parallel(shapes[0][0], width, [=](int64_t n) {
    const float *row = y + n * width, *d = dy + n * width, along = sum(width, [=](int64_t k) { return row[k] * d[k]; });
    for (int64_t k = 0; k < width; ++k) dx[n * width + k] = row[k] * (d[k] - along);
  });
}

// Group ids (C, G) and (G, B), row (C), column (B) -> row + column where one has an id of the other, else 0 (C, B).
// With scores (C, B) and the log-sums of their rows (C) and columns (B): the softmax of both ways minus that.
int targets(ARGUMENTS) {
  const int64_t *own = array<int64_t>(params, 0), *other = array<int64_t>(params, 1);
  const int64_t kinds = shapes[0][1], columns = shapes[1][1];
  return parallel(shapes[0][0], columns, [=](int64_t n) {
    const float row = array(params, 2)[n], *column = array(params, 3);
    float *line = array(params, count - 1) + n * columns;
    std::fill_n(line, columns, 0.0f);
    for (int64_t kind = 0; kind < kinds; ++kind)
      for (int64_t k = 0; k < columns; ++k) {
        const float both = row + column[k], old = line[k];  // read in any case, so that the loop is one of vectors
        line[k] = other[kind * columns + k] == own[n * kinds + kind] ? both : old;
      }
    if (count < 8) return;
    const float *score = array(params, 4) + n * columns, by_row = array(params, 5)[n], *by_column = array(params, 6);
    for (int64_t k = 0; k < columns; ++k) line[k] = expf(score[k] - by_row) + expf(score[k] - by_column[k]) - line[k];
  });
}

// Anything of floats, several times -> the sum of the squares of all (1), exact but for its own rounding.
int square_sum(ARGUMENTS) {
  double total = 0;
  for (int i = 0; i < count - 1; ++i) {
    const int64_t size = size_of(shapes[i], ranks[i]);
    std::vector<double> sums((size + kParallelFrom - 1) / kParallelFrom);
    parallel(sums.size(), kParallelFrom, [&](int64_t n) {
      const float *x = array(params, i) + n * kParallelFrom, *end = array(params, i) + size;
      sums[n] = sum<double>(std::min(kParallelFrom, end - x), [=](int64_t k) { return 1.0 * x[k] * x[k]; });
    });
    for (double part : sums) total += part;
  }
  return *array(params, count - 1) = total, 0;
}

// n parameters, their n first and n second moments, which are updated in place, n gradients, rates (n), decays (n),
// and the numbers (6) factor of the gradients, rate, both betas, epsilon, factor of the decays -> 0 (1).
int adam(ARGUMENTS) {
  const int64_t n = (count - 4) / 4;
  const float *rates = array(params, 4 * n), *decays = array(params, 4 * n + 1), *number = array(params, 4 * n + 2);
  const float factor = number[0], beta1 = number[2], beta2 = number[3], eps = number[4];
  for (int64_t i = 0; i < n; ++i) {
    float *weight = array(params, i), *moment1 = array(params, n + i), *moment2 = array(params, 2 * n + i);
    const float *gradient = array(params, 3 * n + i), rate = number[1] * rates[i], decay = number[5] * decays[i];
    const int64_t size = size_of(shapes[i], ranks[i]);
#pragma omp parallel for simd if (parallel : size > kParallelFrom)
    for (int64_t k = 0; k < size; ++k) {
      const float slope = gradient[k] * factor;
      moment1[k] = beta1 * moment1[k] + (1 - beta1) * slope;
      moment2[k] = beta2 * moment2[k] + (1 - beta2) * slope * slope;
      weight[k] -= rate * (moment1[k] / (std::sqrt(moment2[k]) + eps) + decay * weight[k]);
    }
  }
  return *array(params, count - 1) = 0, 0;
}

// x (B, N, C), places (M, S) -> the sums over S of the rows of x in these places, of which N is none (B, M, C).
int gather_sum(ARGUMENTS) {
  const int64_t rows = shapes[0][1], width = shapes[0][2], places = shapes[1][0], each = shapes[1][1];
  return parallel(shapes[0][0], places * each * width, [=](int64_t b) {
    float *x = array(params, 0) + b * rows * width, *y = array(params, 2) + b * places * width;
    const int32_t *at = array<int32_t>(params, 1), *last = at + places * each;
    for (int64_t run; at < last; at += run * each, y += run * width) {  // run: rows side by side, copied in one go
      for (run = 1; each == 1 && at + run < last && at[run] == *at + run && at[run] < rows;) ++run;
      *at < rows ? std::copy_n(x + *at * width, run * width, y) : std::fill_n(y, width, 0.0f);
      for (int64_t k = 1; k < each; ++k) if (at[k] < rows) add(y, 1, x + at[k] * width, width);
    }
  });
}
}  // extern "C"
