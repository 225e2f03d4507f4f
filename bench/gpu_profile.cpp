// Writes when each kernel and copy of a program ran on the GPU, as lines of start, end and name.
//
//     g++ -O2 -shared -fPIC -I$CUDA_HOME/include -I$CUPTI/include bench/gpu_profile.cpp -o profile.so -L$CUPTI/lib -lcupti
//     CUDA_INJECTION64_PATH=$PWD/profile.so GPU_PROFILE=kernels.tsv lm-eval run …
//
// The CUDA driver loads the library into the program. `bench/gpu_profile.py` runs tasks with it and summarises what it writes.

#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t BUFFER = 8 << 20;
std::mutex lock;
FILE *file = nullptr;

void write(const CUpti_Activity *record) {
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        auto *kernel = reinterpret_cast<const CUpti_ActivityKernel10 *>(record);
        fprintf(file, "%llu\t%llu\t%s\n", (unsigned long long)kernel->start, (unsigned long long)kernel->end, kernel->name);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        auto *copy = reinterpret_cast<const CUpti_ActivityMemcpy6 *>(record);
        fprintf(file, "%llu\t%llu\tcopy of kind %d\n", (unsigned long long)copy->start, (unsigned long long)copy->end, copy->copyKind);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        auto *fill = reinterpret_cast<const CUpti_ActivityMemset4 *>(record);
        fprintf(file, "%llu\t%llu\tfill\n", (unsigned long long)fill->start, (unsigned long long)fill->end);
        break;
    }
    default:
        break;
    }
}

void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *count) {
    *buffer = static_cast<uint8_t *>(aligned_alloc(64, BUFFER));
    *size = BUFFER;
    *count = 0;
}

void CUPTIAPI take(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    std::lock_guard<std::mutex> guard(lock);
    CUpti_Activity *record = nullptr;
    while (file && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) write(record);
    free(buffer);
}

void finish() {
    cuptiActivityFlushAll(1);
    std::lock_guard<std::mutex> guard(lock);
    if (file) fclose(file);
    file = nullptr;
}

} // namespace

extern "C" int InitializeInjection(void) {
    const char *name = getenv("GPU_PROFILE");
    if (!name || !(file = fopen(name, "w"))) return 1;
    cuptiActivityRegisterCallbacks(give, take);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    atexit(finish);
    return 1;
}
