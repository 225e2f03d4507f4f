// Fused kernels that save round trips through device memory.
//
// Attention is ragged: each block processes rows of one segment and one key/value head, and iterates over the segment's
// cache rows. A row is one query of one head; heads that share keys are adjacent, so that keys are loaded once for all of
// them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

// Rows and threads per block: each warp has 16 rows.
constexpr int ROWS = 64;
constexpr int THREADS = ROWS / 16 * 32;

template <typename T> struct Numbers;

template <> struct Numbers<__nv_bfloat16> {
    static __device__ uint32_t pack(float low, float high) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
    static __device__ float read(__nv_bfloat16 number) { return __bfloat162float(number); }
    static __device__ __nv_bfloat16 write(float number) { return __float2bfloat16_rn(number); }
    static __device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

template <> struct Numbers<__half> {
    static __device__ uint32_t pack(float low, float high) {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
    static __device__ float read(__half number) { return __half2float(number); }
    static __device__ __half write(float number) { return __float2half_rn(number); }
    static __device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

__device__ inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_matrices(uint32_t (&parts)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
                 : "r"(address));
}

__device__ inline void load_transposed(uint32_t (&parts)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
                 : "r"(address));
}

// Copies 16 bytes asynchronously, or writes zeros.
__device__ inline void copy_later(uint32_t target, const void *source, bool is_valid) {
    int bytes = is_valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes));
}

// The first key that a query sees.
__device__ inline int first_key(int position, int window, int chunk) {
    int in_window = window > 0 ? max(0, position + 1 - window) : 0;
    return chunk > 0 ? max(in_window, position / chunk * chunk) : in_window;
}

__device__ inline float power_of_two(float number) {
    float made;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(number));
    return made;
}

// Keys in shared memory at a time, so that two stages of keys and values fit into 48 KB.
template <int WIDTH> constexpr int KEYS_AT_ONCE = WIDTH <= 64 ? 64 : WIDTH <= 128 ? 32 : 16;

struct Tile {
    int first;   // the first row of the segment in the batch
    int length;  // tokens of the segment
    int offset;  // keys before its first token
    int keys;    // start of its keys in the list of cache rows
    int row;     // the first of the block's rows: token * group + head
};

template <typename T, int WIDTH>
__device__ void attend(const T *__restrict__ queries, const T *__restrict__ keys, const T *__restrict__ values,
                       T *__restrict__ made, const int *__restrict__ tiles, const uint32_t *__restrict__ key_rows,
                       const float *__restrict__ slopes, const float *__restrict__ sinks, int heads, int kv_heads,
                       float scale, float cap, int window, int chunk) {
    constexpr int KEYS = KEYS_AT_ONCE<WIDTH>;
    constexpr int PITCH = WIDTH + 8;  // rows of shared memory start in different banks
    constexpr int STEPS = WIDTH / 16;
    constexpr float LOG2E = 1.4426950408889634f;
    __shared__ __align__(16) T key_stage[2][KEYS][PITCH];
    __shared__ __align__(16) T value_stage[2][KEYS][PITCH];

    const int *numbers = tiles + blockIdx.x * 5;
    const Tile tile = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    const int kv_head = blockIdx.y;
    const int group = heads / kv_heads;
    const int rows = tile.length * group;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // The two rows of this thread's fragments.
    const int row_of[2] = {tile.row + warp * 16 + lane / 4, tile.row + warp * 16 + lane / 4 + 8};
    int position[2], oldest[2];
    float slope[2];
    for (int half = 0; half < 2; half++) {
        int row = min(row_of[half], rows - 1);
        position[half] = tile.offset + row / group;
        oldest[half] = first_key(position[half], window, chunk);
        slope[half] = slopes == nullptr ? 0.0f : slopes[kv_head * group + row % group];
    }

    // Queries as matrix fragments.
    uint32_t query[STEPS][4];
    for (int half = 0; half < 2; half++) {
        int row = min(row_of[half], rows - 1);
        const T *source = queries + (static_cast<size_t>(tile.first + row / group) * heads + kv_head * group + row % group) * WIDTH;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            query[step][half] = *reinterpret_cast<const uint32_t *>(source + step * 16 + lane % 4 * 2);
            query[step][half + 2] = *reinterpret_cast<const uint32_t *>(source + step * 16 + 8 + lane % 4 * 2);
        }
    }

    const int last_row = min(tile.row + ROWS, rows) - 1;
    const int end = tile.offset + last_row / group + 1;
    const int first_position = tile.offset + tile.row / group;
    // Between these positions are those of the rows of this warp.
    const int lowest = tile.offset + min(tile.row + warp * 16, rows - 1) / group;
    const int highest = tile.offset + min(tile.row + warp * 16 + 15, rows - 1) / group;
    const float unit = cap > 0.0f || slopes != nullptr ? LOG2E : scale * LOG2E;
    const int begin = first_key(first_position, window, chunk) / KEYS * KEYS;

    auto fetch = [&](int stage, int from) {
        constexpr int PIECES = WIDTH / 8;
        for (int piece = threadIdx.x; piece < KEYS * PIECES; piece += THREADS) {
            int key = piece / PIECES, column = piece % PIECES * 8;
            bool is_valid = from + key < end;
            size_t offset = 0;
            if (is_valid) {
                offset = (static_cast<size_t>(key_rows[tile.keys + from + key]) * kv_heads + kv_head) * WIDTH + column;
            }
            copy_later(shared_address(&key_stage[stage][key][column]), keys + offset, is_valid);
            copy_later(shared_address(&value_stage[stage][key][column]), values + offset, is_valid);
        }
        asm volatile("cp.async.commit_group;");
    };

    float sum[WIDTH / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY};
    float total[2] = {0.0f, 0.0f};

    fetch(0, begin);
    int stage = 0;
    for (int from = begin; from < end; from += KEYS, stage ^= 1) {
        if (from + KEYS < end) {
            fetch(stage ^ 1, from + KEYS);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();

        float score[KEYS / 8][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int part = 0; part < KEYS / 16; part++) {
                uint32_t matrices[4];
                int key = part * 16 + lane % 8 + lane / 16 * 8, column = step * 16 + lane / 8 % 2 * 8;
                load_matrices(matrices, shared_address(&key_stage[stage][key][column]));
                Numbers<T>::multiply(score[part * 2], query[step], matrices[0], matrices[1]);
                Numbers<T>::multiply(score[part * 2 + 1], query[step], matrices[2], matrices[3]);
            }
        }

        // Exponentials as powers of two. `unit` turns scores into their exponents.
        if (cap > 0.0f || slopes != nullptr) {
#pragma unroll
            for (int part = 0; part < KEYS / 8; part++) {
#pragma unroll
                for (int item = 0; item < 4; item++) {
                    float number = __fmul_rn(score[part][item], scale);
                    if (cap > 0.0f) number = cap * tanhf(number / cap);
                    int key = from + part * 8 + lane % 4 * 2 + item % 2;
                    score[part][item] = __fmaf_rn(slope[item / 2], key, number);
                }
            }
        }
        const bool sees_all = from + KEYS - 1 <= lowest && from >= first_key(highest, window, chunk);
        if (!sees_all) {
#pragma unroll
            for (int part = 0; part < KEYS / 8; part++) {
#pragma unroll
                for (int item = 0; item < 4; item++) {
                    int key = from + part * 8 + lane % 4 * 2 + item % 2, own = position[item / 2];
                    if (key > own || key < oldest[item / 2]) score[part][item] = -INFINITY;
                }
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float top = largest[half];
#pragma unroll
            for (int part = 0; part < KEYS / 8; part++) {
                top = fmaxf(top, fmaxf(score[part][half * 2], score[part][half * 2 + 1]));
            }
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
            // A row without keys so far has nothing to rescale.
            // Rounded before the difference, so that it is 0 if the largest stays: then tiles behind the last key change nothing.
            float base = top == -INFINITY ? 0.0f : __fmul_rn(top, unit);
            float factor = power_of_two(__fadd_rn(__fmul_rn(largest[half], unit), -base));
            largest[half] = top;
            total[half] = __fmul_rn(total[half], factor);
#pragma unroll
            for (int part = 0; part < WIDTH / 8; part++) {
                sum[part][half * 2] *= factor;
                sum[part][half * 2 + 1] *= factor;
            }
#pragma unroll
            for (int part = 0; part < KEYS / 8; part++) {
#pragma unroll
                for (int item = half * 2; item < half * 2 + 2; item++) {
                    score[part][item] = power_of_two(__fmaf_rn(score[part][item], unit, -base));
                    total[half] += score[part][item];
                }
            }
        }

#pragma unroll
        for (int part = 0; part < KEYS / 16; part++) {
            uint32_t weights[4] = {
                Numbers<T>::pack(score[part * 2][0], score[part * 2][1]),
                Numbers<T>::pack(score[part * 2][2], score[part * 2][3]),
                Numbers<T>::pack(score[part * 2 + 1][0], score[part * 2 + 1][1]),
                Numbers<T>::pack(score[part * 2 + 1][2], score[part * 2 + 1][3]),
            };
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                uint32_t matrices[4];
                int key = part * 16 + lane % 16, column = step * 16 + lane / 16 * 8;
                load_transposed(matrices, shared_address(&value_stage[stage][key][column]));
                Numbers<T>::multiply(sum[step * 2], weights, matrices[0], matrices[1]);
                Numbers<T>::multiply(sum[step * 2 + 1], weights, matrices[2], matrices[3]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        total[half] += __shfl_xor_sync(0xffffffff, total[half], 1);
        total[half] += __shfl_xor_sync(0xffffffff, total[half], 2);
        int row = row_of[half];
        if (row >= rows) continue;
        float share = 1.0f / total[half];
        if (sinks != nullptr) {
            // A further score, whose result is dropped.
            float sink = sinks[kv_head * group + row % group] * LOG2E, own = largest[half] * unit;
            float most = fmaxf(own, sink);
            float factor = power_of_two(own - most);
            share = factor / (total[half] * factor + power_of_two(sink - most));
        }
        T *target = made + (static_cast<size_t>(tile.first + row / group) * heads + kv_head * group + row % group) * WIDTH;
#pragma unroll
        for (int part = 0; part < WIDTH / 8; part++) {
            *reinterpret_cast<uint32_t *>(target + part * 8 + lane % 4 * 2) =
                Numbers<T>::pack(sum[part][half * 2] * share, sum[part][half * 2 + 1] * share);
        }
    }
}

// silu(gate) * rows, eight elements per thread. The result may replace the gate.
template <typename T> __device__ void silu_times(const T *gate, const T *__restrict__ rows, T *made, size_t count) {
    size_t offset = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
    if (offset >= count) return;
    int4 first = *reinterpret_cast<const int4 *>(gate + offset);
    int4 second = *reinterpret_cast<const int4 *>(rows + offset);
    T *gates = reinterpret_cast<T *>(&first), *others = reinterpret_cast<T *>(&second);
#pragma unroll
    for (int index = 0; index < 8; index++) {
        float number = Numbers<T>::read(gates[index]);
        // Rounded in between, like two separate steps.
        float activated = Numbers<T>::read(Numbers<T>::write(number / (1.0f + __expf(-number))));
        gates[index] = Numbers<T>::write(activated * Numbers<T>::read(others[index]));
    }
    *reinterpret_cast<int4 *>(made + offset) = first;
}

// The largest number of a row, its index, and the sum of exponentials relative to it. A block computes a row, in an order that depends on
// the length of the row alone.
constexpr int ROW_THREADS = 512;

template <typename T> __device__ float as_float(T number) { return Numbers<T>::read(number); }
template <> __device__ float as_float<float>(float number) { return number; }

template <typename T>
__device__ void summarise(const T *__restrict__ rows, float *__restrict__ made, int count) {
    __shared__ float largest_of[ROW_THREADS], total_of[ROW_THREADS];
    __shared__ int best_of[ROW_THREADS];
    const T *row = rows + static_cast<size_t>(blockIdx.x) * count;
    float largest = -INFINITY;
    int best = 0;
    for (int index = threadIdx.x; index < count; index += ROW_THREADS) {
        float number = as_float<T>(row[index]);
        if (number > largest) {
            largest = number;
            best = index;
        }
    }
    largest_of[threadIdx.x] = largest;
    best_of[threadIdx.x] = best;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = largest_of[threadIdx.x + half];
            int index = best_of[threadIdx.x + half];
            // Of equal numbers the first.
            if (other > largest_of[threadIdx.x] || (other == largest_of[threadIdx.x] && index < best_of[threadIdx.x])) {
                largest_of[threadIdx.x] = other;
                best_of[threadIdx.x] = index;
            }
        }
        __syncthreads();
    }
    largest = largest_of[0];
    float total = 0.0f;
    for (int index = threadIdx.x; index < count; index += ROW_THREADS) total += expf(as_float<T>(row[index]) - largest);
    total_of[threadIdx.x] = total;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) total_of[threadIdx.x] += total_of[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        made[blockIdx.x * 3] = largest;
        made[blockIdx.x * 3 + 1] = total_of[0];
        made[blockIdx.x * 3 + 2] = static_cast<float>(best_of[0]);
    }
}

// Copies rows of `width` bytes, a multiple of 16, to the rows that `destinations` names.
extern "C" __global__ void store_rows(const int4 *__restrict__ rows, int4 *__restrict__ cache,
                                      const uint32_t *__restrict__ destinations, int pieces) {
    size_t from = static_cast<size_t>(blockIdx.x) * pieces, to = static_cast<size_t>(destinations[blockIdx.x]) * pieces;
    for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x) cache[to + piece] = rows[from + piece];
}

// Copies the rows of `width` bytes, a multiple of 16, that `chosen` names.
extern "C" __global__ void gather_rows(const int4 *__restrict__ rows, int4 *__restrict__ made,
                                       const uint32_t *__restrict__ chosen, int pieces) {
    size_t from = static_cast<size_t>(chosen[blockIdx.x]) * pieces, to = static_cast<size_t>(blockIdx.x) * pieces;
    for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x) made[to + piece] = rows[from + piece];
}

// The numbers at `count` pairs of row and column.
template <typename T>
__device__ void pick(const T *__restrict__ rows, const uint32_t *__restrict__ pairs, float *__restrict__ made, int width,
                     int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    made[index] = as_float<T>(rows[static_cast<size_t>(pairs[index * 2]) * width + pairs[index * 2 + 1]]);
}

// Sums of a number over all threads of a block, in an order that depends on the number of threads alone.
__device__ inline float sum_of_block(float number) {
    __shared__ float sums[32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) number += __shfl_xor_sync(0xffffffff, number, distance);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = number;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < blockDim.x / 32; warp++) total += sums[warp];
    return total;
}

// Eight numbers in 16 bytes.
template <typename T> struct Eight {
    T numbers[8];
};
template <typename T> __device__ inline Eight<T> read_eight(const T *source) {
    int4 read = *reinterpret_cast<const int4 *>(source);
    return *reinterpret_cast<Eight<T> *>(&read);
}

// Pieces of eight numbers per thread.
constexpr int NORM_PIECES = 4;

// Adds rows if there are any to add, and normalises the sum by its root mean square. A block has a row.
template <typename T, typename W>
__device__ void add_norm(const T *__restrict__ rows, const T *__restrict__ added, const W *__restrict__ weight,
                         T *__restrict__ sums, T *__restrict__ made, int width, float epsilon) {
    const size_t start = static_cast<size_t>(blockIdx.x) * width;
    Eight<T> kept[NORM_PIECES];
    float squares = 0.0f;
#pragma unroll
    for (int index = 0; index < NORM_PIECES; index++) {
        int column = (index * blockDim.x + threadIdx.x) * 8;
        if (column >= width) break;
        kept[index] = read_eight(rows + start + column);
        if (added != nullptr) {
            Eight<T> more = read_eight(added + start + column);
#pragma unroll
            for (int item = 0; item < 8; item++) {
                float sum = Numbers<T>::read(kept[index].numbers[item]) + Numbers<T>::read(more.numbers[item]);
                kept[index].numbers[item] = Numbers<T>::write(sum);
            }
            *reinterpret_cast<int4 *>(sums + start + column) = *reinterpret_cast<int4 *>(&kept[index]);
        }
#pragma unroll
        for (int item = 0; item < 8; item++) {
            float number = Numbers<T>::read(kept[index].numbers[item]);
            squares = __fmaf_rn(number, number, squares);
        }
    }
    const float factor = rsqrtf(sum_of_block(squares) / width + epsilon);
#pragma unroll
    for (int index = 0; index < NORM_PIECES; index++) {
        int column = (index * blockDim.x + threadIdx.x) * 8;
        if (column >= width) break;
#pragma unroll
        for (int item = 0; item < 8; item++) {
            float number = Numbers<T>::read(kept[index].numbers[item]);
            kept[index].numbers[item] = Numbers<T>::write(factor * number * as_float<W>(weight[column + item]));
        }
        *reinterpret_cast<int4 *>(made + start + column) = *reinterpret_cast<int4 *>(&kept[index]);
    }
}

// The weighted sum of the rows that `places` names for each row, in this order. A thread has eight columns.
template <typename T>
__device__ void combine_rows(const T *__restrict__ rows, const uint32_t *__restrict__ places,
                             const float *__restrict__ weights, T *__restrict__ made, int width, int count) {
    for (int column = threadIdx.x * 8; column < width; column += blockDim.x * 8) {
        float sums[8] = {};
        for (int index = 0; index < count; index++) {
            const size_t at = static_cast<size_t>(blockIdx.x) * count + index;
            const float weight = weights[at];
            Eight<T> read = read_eight(rows + static_cast<size_t>(places[at]) * width + column);
#pragma unroll
            for (int item = 0; item < 8; item++) {
                sums[item] = __fmaf_rn(weight, Numbers<T>::read(read.numbers[item]), sums[item]);
            }
        }
        Eight<T> written;
#pragma unroll
        for (int item = 0; item < 8; item++) written.numbers[item] = Numbers<T>::write(sums[item]);
        *reinterpret_cast<int4 *>(made + static_cast<size_t>(blockIdx.x) * width + column) =
            *reinterpret_cast<int4 *>(&written);
    }
}

// Heads that a block rotates, and the widest of them.
constexpr int HEADS = 8;
constexpr int WIDEST = 256;

// Normalises heads of queries and keys if there are weights to do it with, rotates them, and stores keys and values in the cache. A warp has
// a head. `turns` has the cosine and the sine of each pair by position, and rows of the inputs are `pitch` numbers apart.
template <typename T>
__device__ void rotate_heads(const T *__restrict__ queries, const T *__restrict__ keys, const T *__restrict__ values,
                             T *__restrict__ made, T *__restrict__ key_cache, T *__restrict__ value_cache,
                             const uint32_t *__restrict__ places, const float2 *__restrict__ turns,
                             const T *__restrict__ query_weight, const T *__restrict__ key_weight, int heads, int kv_heads,
                             int width, int pairs, int is_adjacent, int query_pitch, int key_pitch, float epsilon,
                             int count) {
    __shared__ float2 numbers_of[HEADS][WIDEST / 2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.y * HEADS + warp;
    if (head >= heads + 2 * kv_heads) return;
    const size_t row = blockIdx.x, position = places[row], target = places[count + row];
    if (head >= heads + kv_heads) {
        const int own = head - heads - kv_heads;
        const int4 *from = reinterpret_cast<const int4 *>(values + row * key_pitch + own * width);
        int4 *to = reinterpret_cast<int4 *>(value_cache + (target * kv_heads + own) * width);
        for (int piece = lane; piece < width / 8; piece += 32) to[piece] = from[piece];
        return;
    }
    const bool is_key = head >= heads;
    const T *from = is_key ? keys + row * key_pitch + (head - heads) * width : queries + row * query_pitch + head * width;
    T *to = is_key ? key_cache + (target * kv_heads + head - heads) * width : made + (row * heads + head) * width;
    const T *weight = is_key ? key_weight : query_weight;
    // Two numbers at a time.
    float2 *numbers = numbers_of[warp];
    float squares = 0.0f;
    for (int column = lane; column < width / 2; column += 32) {
        uint32_t both = reinterpret_cast<const uint32_t *>(from)[column];
        const T *pair = reinterpret_cast<const T *>(&both);
        float2 read = {Numbers<T>::read(pair[0]), Numbers<T>::read(pair[1])};
        squares = __fmaf_rn(read.y, read.y, __fmaf_rn(read.x, read.x, squares));
        numbers[column] = read;
    }
    float *single = reinterpret_cast<float *>(numbers);
    if (weight != nullptr) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) squares += __shfl_xor_sync(0xffffffff, squares, distance);
        const float factor = rsqrtf(squares / width + epsilon);
        __syncwarp();
        for (int column = lane; column < width; column += 32) {
            float number = factor * single[column] * Numbers<T>::read(weight[column]);
            single[column] = Numbers<T>::read(Numbers<T>::write(number));
        }
    }
    __syncwarp();
    const float2 *own = turns + position * pairs;
    if (is_adjacent || pairs % 2 != 0) {
        for (int pair = lane; pair < pairs; pair += 32) {
            const int first = is_adjacent ? pair * 2 : pair, second = is_adjacent ? pair * 2 + 1 : pair + pairs;
            const float2 turn = own[pair];
            to[first] = Numbers<T>::write(__fmaf_rn(single[first], turn.x, -__fmul_rn(single[second], turn.y)));
            to[second] = Numbers<T>::write(__fmaf_rn(single[second], turn.x, __fmul_rn(single[first], turn.y)));
        }
    } else {
        for (int pair = lane; pair < pairs / 2; pair += 32) {
            const float2 first = numbers[pair], second = numbers[pair + pairs / 2];
            const float4 turn = reinterpret_cast<const float4 *>(own)[pair];
            reinterpret_cast<uint32_t *>(to)[pair] =
                Numbers<T>::pack(__fmaf_rn(first.x, turn.x, -__fmul_rn(second.x, turn.y)),
                                 __fmaf_rn(first.y, turn.z, -__fmul_rn(second.y, turn.w)));
            reinterpret_cast<uint32_t *>(to)[pair + pairs / 2] =
                Numbers<T>::pack(__fmaf_rn(second.x, turn.x, __fmul_rn(first.x, turn.y)),
                                 __fmaf_rn(second.y, turn.z, __fmul_rn(first.y, turn.w)));
        }
    }
    for (int column = pairs * 2 + lane; column < width; column += 32) to[column] = Numbers<T>::write(single[column]);
}

// Attention in 32 bits, for heads of any width up to WIDEST. Each warp has a row, and each of its lanes a key of a tile.
constexpr int WIDE_ROWS = 8;

extern "C" __global__ void __launch_bounds__(WIDE_ROWS * 32)
    attention_f32(const float *__restrict__ queries, const float *__restrict__ keys, const float *__restrict__ values,
                  float *__restrict__ made, const int *__restrict__ tiles, const uint32_t *__restrict__ key_rows,
                  const float *__restrict__ slopes, const float *__restrict__ sinks, int heads, int kv_heads, float scale,
                  float cap, int window, int chunk, int width) {
    // Keys of a tile with an odd pitch, and queries.
    extern __shared__ float stage[];
    const int pitch = width | 1;
    const int *numbers = tiles + blockIdx.x * 5;
    const Tile tile = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    const int kv_head = blockIdx.y, group = heads / kv_heads, rows = tile.length * group;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = min(tile.row + warp, rows - 1);
    const int position = tile.offset + row / group, oldest = first_key(position, window, chunk);
    const size_t at = (static_cast<size_t>(tile.first + row / group) * heads + kv_head * group + row % group) * width;
    float *query = stage + 32 * pitch + warp * width;
    for (int column = lane; column < width; column += 32) query[column] = queries[at + column];
    const float slope = slopes == nullptr ? 0.0f : slopes[kv_head * group + row % group];
    const int end = tile.offset + (min(tile.row + WIDE_ROWS, rows) - 1) / group + 1;
    const int begin = first_key(tile.offset + tile.row / group, window, chunk) / 32 * 32;
    float sum[WIDEST / 32] = {}, largest = -INFINITY, total = 0.0f;
    for (int from = begin; from < end; from += 32) {
        __syncthreads();
        for (int index = threadIdx.x; index < 32 * width; index += WIDE_ROWS * 32) {
            int key = index / width, column = index % width;
            size_t source = from + key < end ? key_rows[tile.keys + from + key] : 0;
            stage[key * pitch + column] = from + key < end ? keys[(source * kv_heads + kv_head) * width + column] : 0.0f;
        }
        __syncthreads();
        float score = 0.0f;
        for (int column = 0; column < width; column++) score = __fmaf_rn(query[column], stage[lane * pitch + column], score);
        score = __fmul_rn(score, scale);
        if (cap > 0.0f) score = cap * tanhf(score / cap);
        const int key = from + lane;
        score = key <= position && key >= oldest ? __fmaf_rn(slope, key, score) : -INFINITY;
        float top = fmaxf(largest, score);
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, distance));
        // A row without keys so far has nothing to rescale.
        const float base = top == -INFINITY ? 0.0f : top;
        const float factor = expf(largest - base), weight = expf(score - base);
        largest = top;
        float part = weight;
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) part += __shfl_xor_sync(0xffffffff, part, distance);
        total = __fmaf_rn(total, factor, part);
#pragma unroll
        for (int index = 0; index < WIDEST / 32; index++) sum[index] = __fmul_rn(sum[index], factor);
        const int seen = min(32, end - from);
        for (int other = 0; other < seen; other++) {
            const float share = __shfl_sync(0xffffffff, weight, other);
            const size_t source = key_rows[tile.keys + from + other];
            const float *value = values + (source * kv_heads + kv_head) * width;
#pragma unroll
            for (int index = 0; index < WIDEST / 32; index++) {
                int column = index * 32 + lane;
                if (column < width) sum[index] = __fmaf_rn(share, value[column], sum[index]);
            }
        }
    }
    if (tile.row + warp >= rows) return;
    float share = 1.0f / total;
    if (sinks != nullptr) {
        // A further score, whose result is dropped.
        const float sink = sinks[kv_head * group + row % group], most = fmaxf(largest, sink);
        const float factor = expf(largest - most);
        share = factor / (total * factor + expf(sink - most));
    }
#pragma unroll
    for (int index = 0; index < WIDEST / 32; index++) {
        int column = index * 32 + lane;
        if (column < width) made[at + column] = sum[index] * share;
    }
}

// Layers with states. A segment is four numbers: its first row, its length, and the states before and after it plus 1, or 0
// without one. Each thread takes the tokens of a segment one by one, and has up to NUMBERS numbers of the state.

// Threads that share the numbers of a state which a row is multiplied with.
constexpr int SHARED = 8;
// Channels whose states lie side by side.
constexpr int SIDE = 16;

__device__ inline float sum_of_shared(float number) {
#pragma unroll
    for (int distance = SHARED / 2; distance > 0; distance /= 2) {
        number += __shfl_xor_sync(0xffffffff, number, distance, SHARED);
    }
    return number;
}

// A convolution of each channel with its own kernel: kernels are [length, channels].
template <int NUMBERS>
__device__ void convolve(const float *__restrict__ rows, const float *__restrict__ kernels,
                                    const float *__restrict__ bias, float *states, float *__restrict__ made,
                                    const uint32_t *__restrict__ segments, int channels, int length, int count) {
    int channel = blockIdx.y * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    const uint32_t *segment = segments + blockIdx.x * 4;
    const int size = (length - 1) * SIDE;
    size_t group = static_cast<size_t>(channel / SIDE) * count * size + channel % SIDE;
    float read[NUMBERS], weights[NUMBERS];
#pragma unroll
    for (int step = 0; step < NUMBERS; step++) {
        if (step >= length) break;
        weights[step] = kernels[static_cast<size_t>(step) * channels + channel];
        read[step] = segment[2] > 0 && step + 1 < length ? states[group + (segment[2] - 1) * size + step * SIDE] : 0.0f;
    }
    float added = bias == nullptr ? 0.0f : bias[channel];
    for (uint32_t token = 0; token < segment[1]; token++) {
        size_t at = static_cast<size_t>(segment[0] + token) * channels + channel;
        float number = rows[at], sum = added;
#pragma unroll
        for (int step = 0; step < NUMBERS; step++) {
            if (step + 1 == length) read[step] = number;
            if (step < length) sum += weights[step] * read[step];
        }
        made[at] = sum;
#pragma unroll
        for (int step = 0; step + 1 < NUMBERS; step++) read[step] = read[step + 1];
    }
    if (segment[3] > 0) {
#pragma unroll
        for (int step = 0; step + 1 < NUMBERS; step++) {
            if (step + 1 < length) states[group + (segment[3] - 1) * size + step * SIDE] = read[step];
        }
    }
}

// A scan whose heads decay as a whole. Each row of a head has `SHARED` threads.
template <int NUMBERS>
__device__ void scan_heads(const float *__restrict__ rows, const float *__restrict__ times,
                                      const float *__restrict__ inputs, const float *__restrict__ outputs,
                                      const float *__restrict__ rates, const float *__restrict__ skips, float *states,
                                      float *__restrict__ made, const uint32_t *__restrict__ segments, int heads,
                                      int width, int size, int groups, int count) {
    const uint32_t *segment = segments + blockIdx.x * 4;
    const int head = blockIdx.y, lane = threadIdx.x % SHARED;
    const int row = blockIdx.z * (blockDim.x / SHARED) + threadIdx.x / SHARED;
    const bool is_row = row < width;
    size_t whole = static_cast<size_t>(width) * size;
    size_t base = static_cast<size_t>(head) * count * whole + static_cast<size_t>(is_row ? row : 0) * size;
    float state[NUMBERS];
#pragma unroll
    for (int index = 0; index < NUMBERS; index++) {
        if (index * SHARED + lane >= size) break;
        state[index] = segment[2] > 0 ? states[base + (segment[2] - 1) * whole + index * SHARED + lane] : 0.0f;
    }
    float rate = rates[head], skip = skips[head];
    int group = head * groups / heads;
    for (uint32_t token = 0; token < segment[1]; token++) {
        size_t at = segment[0] + token;
        float time = times[at * heads + head];
        float number = is_row ? rows[(at * heads + head) * width + row] : 0.0f;
        float decay = expf(time * rate), taken = time * number, sum = 0.0f;
        const float *input = inputs + (at * groups + group) * size, *output = outputs + (at * groups + group) * size;
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index * SHARED + lane >= size) break;
            state[index] = state[index] * decay + taken * input[index * SHARED + lane];
            sum += state[index] * output[index * SHARED + lane];
        }
        sum = sum_of_shared(sum);
        if (is_row && lane == 0) made[(at * heads + head) * width + row] = sum + skip * number;
    }
    if (segment[3] > 0 && is_row) {
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index * SHARED + lane >= size) break;
            states[base + (segment[3] - 1) * whole + index * SHARED + lane] = state[index];
        }
    }
}

// A scan in which each number of a state decays for itself: rates are [channels, size].
template <int NUMBERS>
__device__ void scan_channels(const float *__restrict__ rows, const float *__restrict__ times,
                                         const float *__restrict__ inputs, const float *__restrict__ outputs,
                                         const float *__restrict__ rates, const float *__restrict__ skips,
                                         float *states, float *__restrict__ made,
                                         const uint32_t *__restrict__ segments, int channels, int size, int count) {
    int channel = blockIdx.y * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    const uint32_t *segment = segments + blockIdx.x * 4;
    size_t whole = static_cast<size_t>(size) * SIDE;
    size_t group = static_cast<size_t>(channel / SIDE) * count * whole + channel % SIDE;
    float state[NUMBERS], rate[NUMBERS];
#pragma unroll
    for (int index = 0; index < NUMBERS; index++) {
        if (index >= size) break;
        rate[index] = rates[static_cast<size_t>(channel) * size + index];
        state[index] = segment[2] > 0 ? states[group + (segment[2] - 1) * whole + index * SIDE] : 0.0f;
    }
    float skip = skips[channel];
    for (uint32_t token = 0; token < segment[1]; token++) {
        size_t at = segment[0] + token;
        float time = times[at * channels + channel], number = rows[at * channels + channel], sum = 0.0f;
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index >= size) break;
            state[index] = state[index] * expf(time * rate[index]) + time * number * inputs[at * size + index];
            sum += state[index] * outputs[at * size + index];
        }
        made[at * channels + channel] = sum + skip * number;
    }
    if (segment[3] > 0) {
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index < size) states[group + (segment[3] - 1) * whole + index * SIDE] = state[index];
        }
    }
}

// The gated delta rule. Each column of a head's state has `SHARED` threads.
template <int NUMBERS>
__device__ void delta_rule(const float *__restrict__ queries, const float *__restrict__ keys,
                                      const float *__restrict__ values, const float *__restrict__ decays,
                                      const float *__restrict__ corrections, float *states, float *__restrict__ made,
                                      const uint32_t *__restrict__ segments, int heads, int key_heads, int width,
                                      int value_width, int count) {
    const uint32_t *segment = segments + blockIdx.x * 4;
    const int head = blockIdx.y, lane = threadIdx.x % SHARED;
    const int column = blockIdx.z * (blockDim.x / SHARED) + threadIdx.x / SHARED;
    const bool is_column = column < value_width;
    size_t whole = static_cast<size_t>(width) * value_width;
    size_t base = static_cast<size_t>(head) * count * whole + (is_column ? column : 0);
    float state[NUMBERS];
#pragma unroll
    for (int index = 0; index < NUMBERS; index++) {
        if (index * SHARED + lane >= width) break;
        size_t at = base + static_cast<size_t>(index * SHARED + lane) * value_width;
        state[index] = segment[2] > 0 ? states[at + (segment[2] - 1) * whole] : 0.0f;
    }
    int key_head = head / (heads / key_heads);
    for (uint32_t token = 0; token < segment[1]; token++) {
        size_t at = segment[0] + token;
        const float *key = keys + (at * key_heads + key_head) * width, *query = queries + (at * key_heads + key_head) * width;
        float decay = decays[at * heads + head], predicted = 0.0f, sum = 0.0f;
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index * SHARED + lane >= width) break;
            state[index] *= decay;
            predicted += state[index] * key[index * SHARED + lane];
        }
        predicted = sum_of_shared(predicted);
        float value = is_column ? values[(at * heads + head) * value_width + column] : 0.0f;
        float change = (value - predicted) * corrections[at * heads + head];
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index * SHARED + lane >= width) break;
            state[index] += key[index * SHARED + lane] * change;
            sum += state[index] * query[index * SHARED + lane];
        }
        sum = sum_of_shared(sum);
        if (is_column && lane == 0) made[(at * heads + head) * value_width + column] = sum;
    }
    if (segment[3] > 0 && is_column) {
#pragma unroll
        for (int index = 0; index < NUMBERS; index++) {
            if (index * SHARED + lane >= width) break;
            states[base + (segment[3] - 1) * whole + static_cast<size_t>(index * SHARED + lane) * value_width] = state[index];
        }
    }
}

#define STATES(NUMBERS)                                                                                               \
    extern "C" __global__ void convolve_##NUMBERS(const float *rows, const float *kernels, const float *bias,         \
                                                  float *states, float *made, const uint32_t *segments, int channels, \
                                                  int length, int count) {                                            \
        convolve<NUMBERS>(rows, kernels, bias, states, made, segments, channels, length, count);                      \
    }                                                                                                                 \
    extern "C" __global__ void scan_heads_##NUMBERS(                                                                  \
        const float *rows, const float *times, const float *inputs, const float *outputs, const float *rates,         \
        const float *skips, float *states, float *made, const uint32_t *segments, int heads, int width, int size,     \
        int groups, int count) {                                                                                      \
        scan_heads<NUMBERS>(rows, times, inputs, outputs, rates, skips, states, made, segments, heads, width, size,   \
                            groups, count);                                                                           \
    }                                                                                                                 \
    extern "C" __global__ void scan_channels_##NUMBERS(                                                               \
        const float *rows, const float *times, const float *inputs, const float *outputs, const float *rates,         \
        const float *skips, float *states, float *made, const uint32_t *segments, int channels, int size,             \
        int count) {                                                                                                  \
        scan_channels<NUMBERS>(rows, times, inputs, outputs, rates, skips, states, made, segments, channels, size,    \
                               count);                                                                                \
    }                                                                                                                 \
    extern "C" __global__ void delta_rule_##NUMBERS(                                                                  \
        const float *queries, const float *keys, const float *values, const float *decays, const float *corrections,  \
        float *states, float *made, const uint32_t *segments, int heads, int key_heads, int width, int value_width,   \
        int count) {                                                                                                  \
        delta_rule<NUMBERS>(queries, keys, values, decays, corrections, states, made, segments, heads, key_heads,     \
                            width, value_width, count);                                                               \
    }

STATES(4)
STATES(16)
STATES(64)

#define ATTENTION(NAME, TYPE, WIDTH)                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME##_##WIDTH(                                             \
        const TYPE *queries, const TYPE *keys, const TYPE *values, TYPE *made, const int *tiles,                      \
        const uint32_t *key_rows, const float *slopes, const float *sinks, int heads, int kv_heads, float scale,      \
        float cap, int window, int chunk) {                                                                           \
        attend<TYPE, WIDTH>(queries, keys, values, made, tiles, key_rows, slopes, sinks, heads, kv_heads, scale, cap, \
                            window, chunk);                                                                           \
    }

#define KERNELS(SUFFIX, TYPE)                                                                                         \
    ATTENTION(attention_##SUFFIX, TYPE, 32)                                                                           \
    ATTENTION(attention_##SUFFIX, TYPE, 64)                                                                           \
    ATTENTION(attention_##SUFFIX, TYPE, 80)                                                                           \
    ATTENTION(attention_##SUFFIX, TYPE, 96)                                                                           \
    ATTENTION(attention_##SUFFIX, TYPE, 128)                                                                          \
    ATTENTION(attention_##SUFFIX, TYPE, 256)                                                                          \
    extern "C" __global__ void add_norm_##SUFFIX(const TYPE *rows, const TYPE *added, const TYPE *weight, TYPE *sums,  \
                                                 TYPE *made, int width, float epsilon) {                              \
        add_norm<TYPE, TYPE>(rows, added, weight, sums, made, width, epsilon);                                        \
    }                                                                                                                 \
    extern "C" __global__ void add_wide_norm_##SUFFIX(const TYPE *rows, const TYPE *added, const float *weight,       \
                                                      TYPE *sums, TYPE *made, int width, float epsilon) {             \
        add_norm<TYPE, float>(rows, added, weight, sums, made, width, epsilon);                                       \
    }                                                                                                                 \
    extern "C" __global__ void combine_rows_##SUFFIX(const TYPE *rows, const uint32_t *places, const float *weights,  \
                                                     TYPE *made, int width, int count) {                              \
        combine_rows<TYPE>(rows, places, weights, made, width, count);                                                \
    }                                                                                                                 \
    extern "C" __global__ void rotate_heads_##SUFFIX(                                                                 \
        const TYPE *queries, const TYPE *keys, const TYPE *values, TYPE *made, TYPE *key_cache, TYPE *value_cache,    \
        const uint32_t *places, const float2 *turns, const TYPE *query_weight, const TYPE *key_weight, int heads,     \
        int kv_heads, int width, int pairs, int is_adjacent, int query_pitch, int key_pitch, float epsilon,           \
        int count) {                                                                                                  \
        rotate_heads<TYPE>(queries, keys, values, made, key_cache, value_cache, places, turns, query_weight,          \
                           key_weight, heads, kv_heads, width, pairs, is_adjacent, query_pitch, key_pitch, epsilon,   \
                           count);                                                                                    \
    }                                                                                                                 \
    extern "C" __global__ void silu_times_##SUFFIX(const TYPE *gate, const TYPE *rows, TYPE *made, size_t count) {    \
        silu_times<TYPE>(gate, rows, made, count);                                                                    \
    }

KERNELS(bf16, __nv_bfloat16)
KERNELS(f16, __half)

#define SUMMARISE(SUFFIX, TYPE)                                                                                       \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS) summarise_##SUFFIX(const TYPE *rows, float *made,      \
                                                                                 int count) {                        \
        summarise<TYPE>(rows, made, count);                                                                           \
    }                                                                                                                 \
    extern "C" __global__ void pick_##SUFFIX(const TYPE *rows, const uint32_t *pairs, float *made, int width,         \
                                             int count) {                                                             \
        pick<TYPE>(rows, pairs, made, width, count);                                                                  \
    }

SUMMARISE(bf16, __nv_bfloat16)
SUMMARISE(f16, __half)
SUMMARISE(f32, float)
