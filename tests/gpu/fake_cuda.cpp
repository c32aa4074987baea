// A stand-in for libcuda.so.1 that runs the self-test's own kernels, as C++ on the processor: every thread of a
// block is a thread of this machine, so that barriers are barriers. Two GPUs, whose faults the environment names:
// FAKE_CUDA_STUCK_BIT=N keeps a bit of GPU N's memory at 1, FAKE_CUDA_LOST=N has GPU N fall off the bus.

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct Index { unsigned x, y; };
static thread_local Index threadIdx, blockIdx;
static thread_local Index gridDim, blockDim;
static thread_local std::barrier<> *together;

#define __device__ static
#define __global__
#define __shared__ static
#define __syncthreads() together->arrive_and_wait()
static void atomicAdd(unsigned long long *at, unsigned long long more)
{
    reinterpret_cast<std::atomic<unsigned long long> *>(at)->fetch_add(more);
}
#include KERNELS

using Run = void (*)(void **);
template <typename T> static T &as(void *value) { return *static_cast<T *>(value); }
static const std::map<std::string, Run> kernels = {
    {"fill", [](void **v) { fill(as<word *>(v[0]), as<word>(v[1]), as<word>(v[2])); }},
    {"check", [](void **v) { check(as<word *>(v[0]), as<word>(v[1]), as<word>(v[2]), as<word *>(v[3])); }},
    {"numbers", [](void **v) { numbers(as<float *>(v[0]), as<word>(v[1]), as<word>(v[2])); }},
    {"product", [](void **v) { product(as<float *>(v[0]), as<float *>(v[1]), as<float *>(v[2]), as<int>(v[3])); }},
};

static const int GPUS = 2, LOST = 79;
static const size_t MEMORY = 64 << 20;
static long current = -1;
static std::map<uint64_t, size_t> allocated;
static bool is(const char *fault, long gpu) { const char *named = getenv(fault); return named && atol(named) == gpu; }

extern "C" {
int cuInit(unsigned) { return 0; }
int cuGetErrorString(int code, const char **text) { *text = code == LOST ? "GPU is lost" : "invalid argument"; return 0; }
int cuDeviceGetCount(int *count) { *count = GPUS; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return index < GPUS ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = reinterpret_cast<void *>(device + 1L); return 0; }
int cuCtxSetCurrent(void *context) { current = reinterpret_cast<long>(context) - 1; return 0; }
int cuDeviceGetName(char *name, int size, int) { strncpy(name, "Processor", size); return 0; }
int cuDeviceGetAttribute(int *value, int which, int)
{
    *value = which == 13 ? 1000000 : which == 16 ? 2 : which == 75 ? 7 : 5;
    return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = MEMORY; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    if (is("FAKE_CUDA_LOST", current)) return LOST;
    *address = reinterpret_cast<uint64_t>(malloc(size));
    allocated[*address] = size;
    return 0;
}
int cuMemFree_v2(uint64_t address)
{
    allocated.erase(address);
    free(reinterpret_cast<void *>(address));
    return 0;
}
int cuMemHostAlloc(void **address, size_t size, unsigned) { *address = malloc(size); return 0; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size)
{
    memset(reinterpret_cast<void *>(address), value, size);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
    memcpy(to, reinterpret_cast<void *>(from), size);
    return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *)
{
    memcpy(reinterpret_cast<void *>(to), from, size);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *) { return cuMemcpyDtoH_v2(to, from, size); }
int cuMemcpyPeerAsync(uint64_t to, void *, uint64_t from, void *, size_t size, void *)
{
    memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), size);
    return 0;
}
int cuDeviceCanAccessPeer(int *can, int, int) { *can = 1; return 0; }
int cuCtxEnablePeerAccess(void *, unsigned) { return 0; }
int cuModuleLoadData(void **module, const char *ptx) { *module = nullptr; return strstr(ptx, ".entry product") ? 0 : 1; }
int cuModuleGetFunction(void **function, void *, const char *name)
{
    auto found = kernels.find(name);
    if (found == kernels.end()) return 500;
    *function = reinterpret_cast<void *>(found->second);
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned, unsigned bx, unsigned by, unsigned, unsigned,
                   void *, void **values, void **)
{
    Run run = reinterpret_cast<Run>(function);
    for (unsigned block = 0; block < gx * gy; block++) {
        std::barrier<> meet(bx * by);
        auto one = [&](unsigned each) {
            gridDim = {gx, gy}, blockDim = {bx, by};
            blockIdx = {block % gx, block / gx}, threadIdx = {each % bx, each / bx};
            together = &meet;
            run(values);
        };
        std::vector<std::thread> threads;
        for (unsigned each = 0; each < bx * by; each++)
            if (run == kernels.at("product"))  // the one in which threads wait for each other
                threads.emplace_back(one, each);
            else
                one(each);
        for (auto &thread : threads) thread.join();
    }
    if (run == kernels.at("fill") && is("FAKE_CUDA_STUCK_BIT", current))
        as<word *>(values[0])[5] ^= 1;
    return 0;
}
int cuEventCreate(void **event, unsigned) { *event = new std::chrono::steady_clock::time_point; return 0; }
int cuEventRecord(void *event, void *) { as<std::chrono::steady_clock::time_point>(event) = std::chrono::steady_clock::now(); return 0; }
int cuEventSynchronize(void *) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *from, void *to)
{
    auto took = as<std::chrono::steady_clock::time_point>(to) - as<std::chrono::steady_clock::time_point>(from);
    *milliseconds = std::chrono::duration<float, std::milli>(took).count();
    return 0;
}
int cuEventDestroy_v2(void *event) { delete static_cast<std::chrono::steady_clock::time_point *>(event); return 0; }
}
