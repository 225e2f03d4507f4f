// Expands quantised weights, just before a product.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

template <typename T> __device__ T written(float number);
template <> __device__ __nv_bfloat16 written(float number) { return __float2bfloat16_rn(number); }
template <> __device__ __half written(float number) { return __float2half_rn(number); }
template <> __device__ float written(float number) { return number; }

// An eight-bit float with four bits of exponent, which has no infinity.
__device__ inline float eight_bits(uint8_t bits) {
    uint32_t size = bits & 0x7f, exponent = size >> 3;
    float number = exponent == 0 ? static_cast<float>(size) * 0.001953125f
                                 : __uint_as_float((size << 20) + (120u << 23));
    if (size == 0x7f) number = __uint_as_float(0x7fc00000);
    return bits & 0x80 ? -number : number;
}

// The number at an index. The kinds are those of `float_kind` in expand.rs.
__device__ inline float number_at(const uint8_t *bytes, size_t index, int kind) {
    switch (kind) {
    case 0: return reinterpret_cast<const float *>(bytes)[index];
    case 1: return __half2float(reinterpret_cast<const __half *>(bytes)[index]);
    case 2: return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(bytes)[index]);
    case 3: return eight_bits(bytes[index]);
    default: return bytes[index] == 0 ? __uint_as_float(0x00400000) : __uint_as_float(static_cast<uint32_t>(bytes[index]) << 23);
    }
}

constexpr int NUMBERS = 8;

// Rows of codes with a scale per group, `NUMBERS` columns per thread. The kinds are those of `code_kind` and `group_kind`.
template <typename T>
__device__ void expand_grouped(const uint8_t *__restrict__ codes, const uint8_t *__restrict__ scales,
                               const int8_t *__restrict__ zeros, const uint32_t *__restrict__ groups,
                               const float *__restrict__ table, T *__restrict__ made, int first, int rows, int columns,
                               int row_bytes, int code_kind, int bits, int scale_kind, float factor, int has_zeros,
                               int group_kind, int height, int width, int per_row) {
    // Pieces are fewer than 2^32, and divisions of 64 bits are slow.
    uint32_t piece = blockIdx.x * blockDim.x + threadIdx.x, pieces = (columns + NUMBERS - 1) / NUMBERS;
    uint32_t row = piece / pieces;
    if (row >= rows) return;
    int start = (piece - row * pieces) * NUMBERS, end = min(start + NUMBERS, columns);
    uint32_t from = row + first;
    const uint8_t *own = codes + static_cast<size_t>(from) * row_bytes;
    // The group of the first column, and the column at which the next one begins.
    size_t group = 0;
    int next = columns;
    if (group_kind == 0) {
        int block = start / width;
        group = static_cast<size_t>(from / height) * per_row + block;
        next = (block + 1) * width;
    } else if (group_kind == 1) {
        size_t place = static_cast<size_t>(from) * columns + start;
        group = place / width;
        next = start + width - static_cast<int>(place - group * width);
    } else {
        next = start;
    }
    float scale = 0.0f, zero = 0.0f;
    bool is_known = false;
    alignas(16) T numbers[NUMBERS];
#pragma unroll
    for (int index = 0; index < NUMBERS; index++) {
        int column = start + index;
        if (column >= end) break;
        if (group_kind == 2) {
            group = static_cast<size_t>(from) * per_row + groups[column];
            is_known = false;
        } else if (column == next) {
            group++;
            next += width;
            is_known = false;
        }
        if (!is_known) {
            scale = number_at(scales, group, scale_kind) * factor;
            zero = has_zeros ? static_cast<float>(zeros[group]) : 0.0f;
            is_known = true;
        }
        float number;
        switch (code_kind) {
        case 0: number = table[own[column / 2] >> (column % 2 * 4) & 15]; break;
        case 1: number = table[own[column / 2] >> ((1 - column % 2) * 4) & 15]; break;
        case 2: {
            uint32_t per_word = 32 / bits, word = column / per_word;
            uint32_t code = reinterpret_cast<const uint32_t *>(own)[word] >> ((column - word * per_word) * bits);
            number = static_cast<float>(code & ((1u << bits) - 1)) - static_cast<float>(1u << (bits - 1));
            break;
        }
        case 3: number = static_cast<int8_t>(own[column]); break;
        default: number = number_at(own, column, code_kind - 4);
        }
        if (has_zeros) number -= zero;
        numbers[index] = written<T>(number * scale);
    }
    T *into = made + static_cast<size_t>(row) * columns + start;
    if (columns % NUMBERS == 0) {
        // Whole pieces are aligned.
        uint4 *words = reinterpret_cast<uint4 *>(into);
        const uint4 *all = reinterpret_cast<const uint4 *>(numbers);
#pragma unroll
        for (int index = 0; index < NUMBERS * sizeof(T) / sizeof(uint4); index++) words[index] = all[index];
    } else {
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (start + index < end) into[index] = numbers[index];
        }
    }
}

// The places of eight outputs in a word of AWQ.
__constant__ int PLACES[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// A code in a stream of words that are `stride` apart.
__device__ inline uint32_t stream(const uint32_t *words, size_t stride, size_t place, int bits) {
    size_t row = place / 32;
    int shift = place % 32;
    uint64_t both = words[row * stride];
    if (shift + bits > 32) both |= static_cast<uint64_t>(words[(row + 1) * stride]) << 32;
    return static_cast<uint32_t>(both >> shift) & ((1u << bits) - 1);
}

// Words of codes of one output (`bits` each), or of eight outputs (`bits` is 0), as `[input, output]`: `NUMBERS` inputs per thread.
template <typename T>
__device__ void expand_columns(const uint32_t *__restrict__ words, const uint32_t *__restrict__ zeros,
                               const uint8_t *__restrict__ scales, const uint32_t *__restrict__ groups,
                               T *__restrict__ made, int first, int count, int outputs, int inputs, int bits, int more,
                               int scale_kind) {
    // A division of 64 bits per number would be slow.
    uint32_t blocks = (count + blockDim.x - 1) / blockDim.x;
    uint32_t piece = blockIdx.x / blocks;
    int column = (blockIdx.x - piece * blocks) * blockDim.x + threadIdx.x;
    if (column >= count) return;
    const uint32_t output = column + first, start = piece * NUMBERS, mask = (1u << (bits > 0 ? bits : 4)) - 1;
    const size_t width = bits > 0 ? (static_cast<size_t>(outputs) * bits + 31) / 32 : outputs / 8;
    const int shift = 4 * PLACES[output % 8];
    uint32_t known = 0xffffffff;
    float scale = 0.0f, zero = 0.0f;
#pragma unroll
    for (int index = 0; index < NUMBERS; index++) {
        uint32_t input = start + index;
        if (input >= inputs) break;
        uint32_t group = groups[input];
        if (group != known) {
            uint32_t stored = bits > 0 ? stream(zeros + group * width, 1, static_cast<size_t>(output) * bits, bits)
                                       : zeros[group * width + output / 8] >> shift & 15;
            zero = static_cast<float>(stored + more & mask);
            scale = number_at(scales, static_cast<size_t>(group) * outputs + output, scale_kind);
            known = group;
        }
        uint32_t code = bits > 0 ? stream(words + output, outputs, static_cast<size_t>(input) * bits, bits)
                                 : words[input * width + output / 8] >> shift & 15;
        made[static_cast<size_t>(input) * count + column] = written<T>((static_cast<float>(code) - zero) * scale);
    }
}

#define KERNELS(SUFFIX, TYPE)                                                                                         \
    extern "C" __global__ void expand_grouped_##SUFFIX(                                                               \
        const uint8_t *codes, const uint8_t *scales, const int8_t *zeros, const uint32_t *groups, const float *table, \
        TYPE *made, int first, int rows, int columns, int row_bytes, int code_kind, int bits, int scale_kind,         \
        float factor, int has_zeros, int group_kind, int height, int width, int per_row) {                            \
        expand_grouped<TYPE>(codes, scales, zeros, groups, table, made, first, rows, columns, row_bytes, code_kind,   \
                             bits, scale_kind, factor, has_zeros, group_kind, height, width, per_row);                \
    }                                                                                                                 \
    extern "C" __global__ void expand_columns_##SUFFIX(                                                               \
        const uint32_t *words, const uint32_t *zeros, const uint8_t *scales, const uint32_t *groups, TYPE *made,      \
        int first, int count, int outputs, int inputs, int bits, int more, int scale_kind) {                          \
        expand_columns<TYPE>(words, zeros, scales, groups, made, first, count, outputs, inputs, bits, more,           \
                             scale_kind);                                                                             \
    }

KERNELS(bf16, __nv_bfloat16)
KERNELS(f16, __half)
KERNELS(f32, float)
