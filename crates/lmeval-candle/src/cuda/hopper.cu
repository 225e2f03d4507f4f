// Attention and products of experts on the asynchronous matrix units of compute capability 9.0.
//
// Attention does the same work as `attend` in kernels.cu. A block has 128 rows of one segment and one key/value head. One warpgroup copies keys and values into shared memory, and two others have
// 64 rows each: while one of them computes exponentials, the other one multiplies. Keys are taken in tiles of 128 from the first one on, so a
// row has the same bits whatever the other rows of its block are.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

// Threads of a warpgroup, and rows that it multiplies.
constexpr int GROUP = 128;
constexpr int GROUP_ROWS = 64;
constexpr int READERS = 2;
constexpr int THREADS = (READERS + 1) * GROUP;
constexpr int ROWS = READERS * GROUP_ROWS;
// Keys of a tile, and tiles in shared memory.
constexpr int KEYS = 128;
constexpr int STAGES = 2;
// Columns that lie side by side in shared memory, as 128 bytes whose pieces of 16 are permuted by row.
constexpr int PANEL = 64;
constexpr float LOG2E = 1.4426950408889634f;

template <typename T> struct Numbers;
template <> struct Numbers<__nv_bfloat16> {
    static __device__ uint32_t pack(float low, float high) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
};
template <> struct Numbers<__half> {
    static __device__ uint32_t pack(float low, float high) {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
};

__device__ inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Barriers in shared memory. A phase ends when all expected threads have arrived.
__device__ inline void expect(uint64_t &barrier, int threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(threads));
}
__device__ inline void arrive(uint64_t &barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ inline bool is_over(uint64_t &barrier, int parity) {
    uint32_t done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(&barrier)), "r"(parity)
                 : "memory");
    return done != 0;
}
__device__ inline void wait(uint64_t &barrier, int parity) {
    while (!is_over(barrier, parity)) {
    }
}

// Makes what this thread wrote to shared memory visible to the matrix units.
__device__ inline void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void copy_later(uint32_t target, const void *source, bool is_valid) {
    int bytes = is_valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

__device__ inline float power_of_two(float number) {
    float made;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(number));
    return made;
}

// The description of a matrix in shared memory: its address, the distance of panels if columns are not summed over, and of eight rows.
__device__ inline uint64_t describe(uint32_t address, uint32_t panels) {
    return (static_cast<uint64_t>(1) << 62) | (static_cast<uint64_t>(1024 >> 4) << 32) |
           (static_cast<uint64_t>(panels >> 4) << 16) | ((address & 0x3ffff) >> 4);
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ inline void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define LIST_8(A, I) "+f"(A[I]), "+f"(A[I + 1]), "+f"(A[I + 2]), "+f"(A[I + 3]), "+f"(A[I + 4]), "+f"(A[I + 5]), "+f"(A[I + 6]), "+f"(A[I + 7])
#define LIST_32(A, I) LIST_8(A, I), LIST_8(A, I + 8), LIST_8(A, I + 16), LIST_8(A, I + 24)
#define NAMES_32                                                                                                      \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"  \
    "%30,%31"
#define NAMES_64                                                                                                      \
    NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"  \
             "%57,%58,%59,%60,%61,%62,%63"

template <typename T> struct Products;
#define PRODUCTS(TYPE, NAME)                                                                                          \
    template <> struct Products<TYPE> {                                                                               \
        /* Sums over columns of both. */                                                                              \
        static __device__ void scores(float (&sum)[64], uint64_t rows, uint64_t keys, int adds) {                     \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                 \
                         "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                   \
                         "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                             \
                         : LIST_32(sum, 0), LIST_32(sum, 32)                                                          \
                         : "l"(rows), "l"(keys), "r"(adds));                                                          \
        }                                                                                                             \
        /* Sums over rows of the second. */                                                                           \
        static __device__ void outputs(float (&sum)[64], const uint32_t *weights, uint64_t values) {                  \
            asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                   \
                         "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"                                                     \
                         : LIST_32(sum, 0), LIST_32(sum, 32)                                                          \
                         : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "l"(values));          \
        }                                                                                                             \
        static __device__ void outputs(float (&sum)[32], const uint32_t *weights, uint64_t values) {                  \
            asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" NAMES_32                    \
                         "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"                                                     \
                         : LIST_32(sum, 0)                                                                            \
                         : "r"(weights[0]), "r"(weights[1]), "r"(weights[2]), "r"(weights[3]), "l"(values));          \
        }                                                                                                             \
    };
PRODUCTS(__nv_bfloat16, "bf16")
PRODUCTS(__half, "f16")

template <typename T, int WIDTH> struct Shared {
    T queries[READERS][WIDTH / PANEL][GROUP_ROWS][PANEL];
    T keys[STAGES][WIDTH / PANEL][KEYS][PANEL];
    T values[STAGES][WIDTH / PANEL][KEYS][PANEL];
    // For keys and values of each stage: whether they are there, and whether all readers are done with them.
    uint64_t full[2][STAGES], empty[2][STAGES];
};

// The first key that a query sees.
__device__ inline int first_key(int position, int window, int chunk) {
    int in_window = window > 0 ? max(0, position + 1 - window) : 0;
    return chunk > 0 ? max(in_window, position / chunk * chunk) : in_window;
}

struct Tile {
    int first;   // the first row of the segment in the batch
    int length;  // tokens of the segment
    int offset;  // keys before its first token
    int keys;    // start of its keys in the list of cache rows
    int row;     // the first of the block's rows: token * group + head
};

struct Work {
    Tile tile;
    int heads, kv_heads, kv_head, group, rows;
    float scale, cap;
    int window, chunk;
    int begin, count;  // the first key, and the number of tiles
    int end;           // behind the last key
};

// Copies the tiles of keys and values.
template <typename T, int WIDTH>
__device__ void copy_tiles(Shared<T, WIDTH> &shared, const Work &work, const T *__restrict__ keys,
                           const T *__restrict__ values, const uint32_t *__restrict__ key_rows) {
    constexpr int PIECES = WIDTH / 8, AT_ONCE = GROUP / PIECES, STEPS = KEYS / AT_ONCE;
    const int thread = threadIdx.x, piece = thread % PIECES, line = thread / PIECES;
    const size_t pitch = static_cast<size_t>(work.kv_heads) * WIDTH;
    const T *from[2] = {keys + work.kv_head * WIDTH + piece * 8, values + work.kv_head * WIDTH + piece * 8};
    uint32_t offsets[2];
    // Rows of this thread are a multiple of eight apart, so that their permutation is the same.
    static_assert(AT_ONCE % 8 == 0, "rows of a thread");
    const uint32_t inner = ((piece / 8 * KEYS + line) * PANEL + (piece % 8 ^ line % 8) * 8) * sizeof(T);
    offsets[0] = shared_address(&shared.keys[0]) + inner;
    offsets[1] = shared_address(&shared.values[0]) + inner;
    bool is_pending = false;
    int before = 0;  // what was copied last: twice the tile, plus one for values
    auto report = [&]() {
        publish();
        arrive(shared.full[before % 2][before / 2 % STAGES]);
    };
    for (int tile = 0; tile < work.count; tile++) {
        const int first = work.begin + tile * KEYS + line;
        uint32_t rows[STEPS];
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            int key = first + step * AT_ONCE;
            rows[step] = key < work.end ? key_rows[work.tile.keys + key] : 0;
        }
        const int stage = tile % STAGES, parity = tile / STAGES % 2 ^ 1;
#pragma unroll
        for (int kind = 0; kind < 2; kind++) {
            uint64_t &empty = shared.empty[kind][stage];
            if (is_pending && !is_over(empty, parity)) {
                asm volatile("cp.async.wait_group 0;" ::: "memory");
                report();
                is_pending = false;
            }
            wait(empty, parity);
            const uint32_t target = offsets[kind] + stage * static_cast<uint32_t>(sizeof(shared.keys[0]));
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                copy_later(target + step * AT_ONCE * PANEL * sizeof(T), from[kind] + rows[step] * pitch,
                           first + step * AT_ONCE < work.end);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (is_pending) {
                asm volatile("cp.async.wait_group 1;" ::: "memory");
                report();
            }
            is_pending = true;
            before = tile * 2 + kind;
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    if (is_pending) report();
}

// Starts the products of the queries with a tile of keys.
template <typename T, int WIDTH>
__device__ void start_scores(float (&score)[KEYS / 2], Shared<T, WIDTH> &shared, int reader, int stage) {
    const uint32_t queries = shared_address(&shared.queries[reader]), keys = shared_address(&shared.keys[stage]);
#pragma unroll
    for (int step = 0; step < WIDTH / 16; step++) {
        int panel = step / 4, inside = step % 4 * 32;
        Products<T>::scores(score, describe(queries + panel * GROUP_ROWS * 128 + inside, 16),
                            describe(keys + panel * KEYS * 128 + inside, 16), step > 0);
    }
}

// Starts the products of weights with a tile of values.
template <typename T, int WIDTH>
__device__ void start_outputs(float (&sum)[WIDTH / 2], const uint32_t (&weights)[KEYS / 4], Shared<T, WIDTH> &shared,
                              int stage) {
    const uint32_t values = shared_address(&shared.values[stage]);
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        Products<T>::outputs(sum, weights + step * 4, describe(values + step * 16 * 128, KEYS * 128));
    }
}

// What a thread knows about its two rows.
struct Rows {
    int position[2], oldest[2];
    float slope[2];
    float largest[2], total[2];
};

// Turns scores into exponentials relative to the largest so far. Returns by how much earlier ones shrink.
__device__ inline void exponentials(float (&score)[KEYS / 2], float (&factor)[2], Rows &rows, const Work &work, int from,
                                    int lowest, int newest, bool has_slopes) {
    const int lane = threadIdx.x % 32;
    float scale = work.scale * LOG2E;
    if (work.cap > 0.0f || has_slopes) {
#pragma unroll
        for (int index = 0; index < KEYS / 2; index++) {
            float number = __fmul_rn(score[index], work.scale);
            if (work.cap > 0.0f) number = work.cap * tanhf(number / work.cap);
            int key = from + index / 4 * 8 + lane % 4 * 2 + index % 2;
            score[index] = __fmaf_rn(rows.slope[index / 2 % 2], key, number);
        }
        scale = LOG2E;
    }
    if (from + KEYS - 1 > lowest || from < newest) {
#pragma unroll
        for (int index = 0; index < KEYS / 2; index++) {
            int key = from + index / 4 * 8 + lane % 4 * 2 + index % 2;
            if (key > rows.position[index / 2 % 2] || key < rows.oldest[index / 2 % 2]) score[index] = -INFINITY;
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = rows.largest[half];
#pragma unroll
        for (int part = 0; part < KEYS / 8; part++) {
            top = fmaxf(top, fmaxf(score[part * 4 + half * 2], score[part * 4 + half * 2 + 1]));
        }
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
        // A row without keys so far has nothing to rescale.
        // Rounded before the difference, so that it is 0 if the largest stays: then tiles behind the last key change nothing.
        const float base = top == -INFINITY ? 0.0f : __fmul_rn(top, scale);
        factor[half] = power_of_two(__fadd_rn(__fmul_rn(rows.largest[half], scale), -base));
        rows.largest[half] = top;
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < KEYS / 8; part++) {
#pragma unroll
            for (int item = 0; item < 2; item++) {
                float &number = score[part * 4 + half * 2 + item];
                number = power_of_two(__fmaf_rn(number, scale, -base));
                total += number;
            }
        }
        rows.total[half] = __fmaf_rn(rows.total[half], factor[half], total);
    }
}

template <typename T> __device__ inline void pack_weights(uint32_t (&weights)[KEYS / 4], const float (&score)[KEYS / 2]) {
#pragma unroll
    for (int index = 0; index < KEYS / 4; index++) {
        weights[index] = Numbers<T>::pack(score[index * 2], score[index * 2 + 1]);
    }
}

// Multiplies 64 rows with all tiles.
template <typename T, int WIDTH>
__device__ void read_tiles(Shared<T, WIDTH> &shared, const Work &work, const T *__restrict__ queries,
                           T *__restrict__ made, const float *__restrict__ slopes, const float *__restrict__ sinks) {
    const int reader = threadIdx.x / GROUP - 1, thread = threadIdx.x % GROUP, lane = thread % 32;
    const int first_row = work.tile.row + reader * GROUP_ROWS;
    if (first_row >= work.rows) {
        // Nothing to do but to let the copies go on.
        if (lane == 0) {
            for (int tile = 0; tile < work.count; tile++) {
                for (int kind = 0; kind < 2; kind++) {
                    wait(shared.full[kind][tile % STAGES], tile / STAGES % 2);
                    arrive(shared.empty[kind][tile % STAGES]);
                }
            }
        }
        return;
    }
    const int group = work.group;
    auto row_offset = [&](int row) {
        return (static_cast<size_t>(work.tile.first + row / group) * work.heads + work.kv_head * group + row % group) *
               WIDTH;
    };
    constexpr int PIECES = WIDTH / 8;
#pragma unroll
    for (int index = 0; index < GROUP_ROWS * PIECES / GROUP; index++) {
        int number = index * GROUP + thread, row = number / PIECES, piece = number % PIECES;
        int4 read = *reinterpret_cast<const int4 *>(queries + row_offset(min(first_row + row, work.rows - 1)) + piece * 8);
        *reinterpret_cast<int4 *>(&shared.queries[reader][piece / 8][row][(piece % 8 ^ row % 8) * 8]) = read;
    }
    publish();
    asm volatile("bar.sync %0, %1;" ::"r"(reader + 1), "n"(GROUP) : "memory");

    const int row_of[2] = {first_row + thread / 32 * 16 + lane / 4, first_row + thread / 32 * 16 + lane / 4 + 8};
    Rows rows;
    for (int half = 0; half < 2; half++) {
        int row = min(row_of[half], work.rows - 1);
        rows.position[half] = work.tile.offset + row / group;
        rows.oldest[half] = first_key(rows.position[half], work.window, work.chunk);
        rows.slope[half] = slopes == nullptr ? 0.0f : slopes[work.kv_head * group + row % group];
        rows.largest[half] = -INFINITY;
        rows.total[half] = 0.0f;
    }
    // The last key that all rows see, and the first one.
    const int lowest = work.tile.offset + first_row / group;
    const int newest =
        first_key(work.tile.offset + (min(first_row + GROUP_ROWS, work.rows) - 1) / group, work.window, work.chunk);

    float sum[WIDTH / 2], score[KEYS / 2], factor[2];
    uint32_t weights[KEYS / 4];
#pragma unroll
    for (int index = 0; index < WIDTH / 2; index++) sum[index] = 0.0f;

    wait(shared.full[0][0], 0);
    begin_products();
    start_scores<T, WIDTH>(score, shared, reader, 0);
    end_products();
    wait_products<0>();
    if (lane == 0) arrive(shared.empty[0][0]);
    exponentials(score, factor, rows, work, work.begin, lowest, newest, slopes != nullptr);
    pack_weights<T>(weights, score);

    for (int tile = 1; tile < work.count; tile++) {
        const int stage = tile % STAGES, parity = tile / STAGES % 2;
        const int last_stage = (tile - 1) % STAGES, last_parity = (tile - 1) / STAGES % 2;
        wait(shared.full[0][stage], parity);
        begin_products();
        start_scores<T, WIDTH>(score, shared, reader, stage);
        end_products();
        wait(shared.full[1][last_stage], last_parity);
        start_outputs<T, WIDTH>(sum, weights, shared, last_stage);
        end_products();
        wait_products<1>();
        if (lane == 0) arrive(shared.empty[0][stage]);
        exponentials(score, factor, rows, work, work.begin + tile * KEYS, lowest, newest, slopes != nullptr);
        wait_products<0>();
        if (lane == 0) arrive(shared.empty[1][last_stage]);
#pragma unroll
        for (int index = 0; index < WIDTH / 2; index++) sum[index] *= factor[index / 2 % 2];
        pack_weights<T>(weights, score);
    }
    const int last = work.count - 1;
    wait(shared.full[1][last % STAGES], last / STAGES % 2);
    begin_products();
    start_outputs<T, WIDTH>(sum, weights, shared, last % STAGES);
    end_products();
    wait_products<0>();

    const float scale = work.cap > 0.0f || slopes != nullptr ? LOG2E : work.scale * LOG2E;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float total = rows.total[half];
        total += __shfl_xor_sync(0xffffffff, total, 1);
        total += __shfl_xor_sync(0xffffffff, total, 2);
        int row = row_of[half];
        if (row >= work.rows) continue;
        float share = 1.0f / total;
        if (sinks != nullptr) {
            // A further score, whose result is dropped.
            float sink = sinks[work.kv_head * group + row % group] * LOG2E, largest = rows.largest[half] * scale;
            float highest = fmaxf(largest, sink);
            float shrunk = power_of_two(largest - highest);
            share = shrunk / (total * shrunk + power_of_two(sink - highest));
        }
        T *target = made + row_offset(row);
#pragma unroll
        for (int part = 0; part < WIDTH / 8; part++) {
            *reinterpret_cast<uint32_t *>(target + part * 8 + lane % 4 * 2) =
                Numbers<T>::pack(sum[part * 4 + half * 2] * share, sum[part * 4 + half * 2 + 1] * share);
        }
    }
}

template <typename T, int WIDTH>
__device__ void attend(const T *__restrict__ queries, const T *__restrict__ keys, const T *__restrict__ values,
                       T *__restrict__ made, const int *__restrict__ tiles, const uint32_t *__restrict__ key_rows,
                       const float *__restrict__ slopes, const float *__restrict__ sinks, int heads, int kv_heads,
                       float scale, float cap, int window, int chunk) {
    extern __shared__ uint8_t room[];
    // The permutation repeats every 1,024 bytes of the address.
    Shared<T, WIDTH> &shared = *reinterpret_cast<Shared<T, WIDTH> *>(room + (1024 - shared_address(room) % 1024) % 1024);
    const int *numbers = tiles + blockIdx.x * 5;
    Work work;
    work.tile = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    work.heads = heads;
    work.kv_heads = kv_heads;
    work.kv_head = blockIdx.y;
    work.group = heads / kv_heads;
    work.rows = work.tile.length * work.group;
    work.scale = scale;
    work.cap = cap;
    work.window = window;
    work.chunk = chunk;
    const int last_row = min(work.tile.row + ROWS, work.rows) - 1;
    work.end = work.tile.offset + last_row / work.group + 1;
    const int position = work.tile.offset + work.tile.row / work.group;
    work.begin = first_key(position, window, chunk) / KEYS * KEYS;
    work.count = (work.end - work.begin + KEYS - 1) / KEYS;

    if (threadIdx.x == 0) {
        for (int kind = 0; kind < 2; kind++) {
            for (int stage = 0; stage < STAGES; stage++) {
                expect(shared.full[kind][stage], GROUP);
                expect(shared.empty[kind][stage], READERS * 4);
            }
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        copy_tiles<T, WIDTH>(shared, work, keys, values, key_rows);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        read_tiles<T, WIDTH>(shared, work, queries, made, slopes, sinks);
    }
}

// Products of rows with the matrices of experts: each block has up to 128 rows of one expert and 128 of its outputs.
constexpr int OUTPUTS = 128;
// Numbers of the depth that are copied at a time, and copies in shared memory.
constexpr int DEPTH = PANEL;
constexpr int COPIES = 4;
// Copies on their way at once.
constexpr int UNDER_WAY = 2;

template <typename T> struct Pieces {
    T rows[COPIES][ROWS][DEPTH];
    T matrix[COPIES][OUTPUTS][DEPTH];
    uint64_t full[COPIES], empty[COPIES];
};

// Copies rows, which `chosen` names if it is there, and rows of a matrix.
template <typename T>
__device__ void copy_pieces(Pieces<T> &shared, const T *__restrict__ rows, const uint32_t *__restrict__ chosen,
                            const T *__restrict__ matrix, int first, int count, int output, int depth) {
    constexpr int LINES = 8, AT_ONCE = GROUP / LINES, STEPS = ROWS / AT_ONCE;
    const int piece = threadIdx.x % LINES, line = threadIdx.x / LINES;
    const uint32_t inner = (line * DEPTH + (piece ^ line % 8) * 8) * sizeof(T);
    const uint32_t row_target = shared_address(&shared.rows) + inner, matrix_target = shared_address(&shared.matrix) + inner;
    constexpr uint32_t SIZE = ROWS * DEPTH * sizeof(T);
    const T *from[STEPS];
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        int row = first + min(line + step * AT_ONCE, count - 1);
        from[step] = rows + static_cast<size_t>(chosen == nullptr ? row : chosen[row]) * depth + piece * 8;
    }
    const T *own = matrix + static_cast<size_t>(output + line) * depth + piece * 8;
    const int total = depth / DEPTH;
    int reported = 0;
    auto report = [&]() {
        arrive(shared.full[reported % COPIES]);
        reported++;
    };
    for (int index = 0; index < total; index++) {
        const int stage = index % COPIES, parity = index / COPIES % 2 ^ 1;
        if (reported < index && !is_over(shared.empty[stage], parity)) {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            publish();
            while (reported < index) report();
        }
        wait(shared.empty[stage], parity);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const uint32_t offset = stage * SIZE + step * AT_ONCE * DEPTH * sizeof(T);
            copy_later(row_target + offset, from[step] + index * DEPTH, true);
            copy_later(matrix_target + offset, own + static_cast<size_t>(step * AT_ONCE) * depth + index * DEPTH, true);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (index - reported >= UNDER_WAY) {
            asm volatile("cp.async.wait_group %0;" ::"n"(UNDER_WAY) : "memory");
            publish();
            report();
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    publish();
    while (reported < total) report();
}

template <typename T>
__device__ void multiply_pieces(Pieces<T> &shared, T *__restrict__ made, int first, int count, int output, int outputs,
                                int depth) {
    const int reader = threadIdx.x / GROUP - 1, thread = threadIdx.x % GROUP, lane = thread % 32;
    float sum[OUTPUTS / 2];
    const int total = depth / DEPTH;
    for (int index = 0; index < total; index++) {
        const int stage = index % COPIES;
        wait(shared.full[stage], index / COPIES % 2);
        const uint32_t rows = shared_address(&shared.rows[stage][reader * GROUP_ROWS]);
        const uint32_t matrix = shared_address(&shared.matrix[stage]);
        begin_products();
#pragma unroll
        for (int step = 0; step < DEPTH / 16; step++) {
            Products<T>::scores(sum, describe(rows + step * 32, 16), describe(matrix + step * 32, 16), index + step > 0);
        }
        end_products();
        if (index > 0) {
            wait_products<1>();
            if (lane == 0) arrive(shared.empty[(index - 1) % COPIES]);
        }
    }
    wait_products<0>();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = reader * GROUP_ROWS + thread / 32 * 16 + lane / 4 + half * 8;
        if (row >= count) continue;
        T *target = made + static_cast<size_t>(first + row) * outputs + output + lane % 4 * 2;
#pragma unroll
        for (int part = 0; part < OUTPUTS / 8; part++) {
            *reinterpret_cast<uint32_t *>(target + part * 8) =
                Numbers<T>::pack(sum[part * 4 + half * 2], sum[part * 4 + half * 2 + 1]);
        }
    }
}

// `tiles` has an expert, a first row and a number of rows for each block.
template <typename T>
__device__ void multiply_experts(const T *__restrict__ rows, const uint32_t *__restrict__ chosen,
                                 const uint64_t *__restrict__ matrices, T *__restrict__ made, const int *__restrict__ tiles,
                                 int depth, int outputs) {
    extern __shared__ uint8_t room[];
    Pieces<T> &shared = *reinterpret_cast<Pieces<T> *>(room + (1024 - shared_address(room) % 1024) % 1024);
    const int *tile = tiles + blockIdx.y * 3;
    const int expert = tile[0], first = tile[1], count = tile[2], output = blockIdx.x * OUTPUTS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < COPIES; stage++) {
            expect(shared.full[stage], GROUP);
            expect(shared.empty[stage], READERS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x < GROUP) {
        copy_pieces<T>(shared, rows, chosen, reinterpret_cast<const T *>(matrices[expert]), first, count, output, depth);
    } else {
        multiply_pieces<T>(shared, made, first, count, output, outputs, depth);
    }
}

#define EXPERTS(SUFFIX, TYPE)                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) multiply_experts_##SUFFIX(                               \
        const TYPE *rows, const uint32_t *chosen, const uint64_t *matrices, TYPE *made, const int *tiles, int depth,  \
        int outputs) {                                                                                                \
        multiply_experts<TYPE>(rows, chosen, matrices, made, tiles, depth, outputs);                                  \
    }

EXPERTS(bf16, __nv_bfloat16)
EXPERTS(f16, __half)

#define ATTENTION(NAME, TYPE, WIDTH)                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME##_##WIDTH(                                          \
        const TYPE *queries, const TYPE *keys, const TYPE *values, TYPE *made, const int *tiles,                      \
        const uint32_t *key_rows, const float *slopes, const float *sinks, int heads, int kv_heads, float scale,      \
        float cap, int window, int chunk) {                                                                           \
        attend<TYPE, WIDTH>(queries, keys, values, made, tiles, key_rows, slopes, sinks, heads, kv_heads, scale, cap, \
                            window, chunk);                                                                           \
    }

ATTENTION(attention_bf16, __nv_bfloat16, 64)
ATTENTION(attention_bf16, __nv_bfloat16, 128)
ATTENTION(attention_f16, __half, 64)
ATTENTION(attention_f16, __half, 128)
