// What the self-test runs on a GPU. Made into kernels.ptx by templates/make_kernels.py.

typedef unsigned long long word;

// A word that depends on every bit of where it lies (the finalizer of splitmix64).
__device__ word pattern(word index, word seed)
{
    word z = (index ^ seed) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

extern "C" __global__ void fill(word *words, word count, word seed)
{
    word step = (word)gridDim.x * blockDim.x;
    for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        words[i] = pattern(i, seed);
}

extern "C" __global__ void check(const word *words, word count, word seed, word *wrong)
{
    word step = (word)gridDim.x * blockDim.x;
    word mine = 0;
    for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        mine += words[i] != pattern(i, seed);
    if (mine)
        atomicAdd(wrong, mine);
}

// Small whole numbers, so that every sum is exact: entry i of matrix `which` is between -3 and 3.
extern "C" __global__ void numbers(float *matrix, word count, word which)
{
    word step = (word)gridDim.x * blockDim.x;
    for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        matrix[i] = (float)(int)(pattern(i, which) % 7) - 3.0f;
}

// c = a * b for square matrices whose size is a multiple of 64. A block of 16 x 16 threads makes a tile of
// 64 x 64, each thread 4 x 4 of it, from strips of 16 that the block has loaded together.
extern "C" __global__ void product(const float *a, const float *b, float *c, int size)
{
    __shared__ float strip_a[16][64];
    __shared__ float strip_b[16][64];
    int thread = threadIdx.y * 16 + threadIdx.x;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k = 0; k < size; k += 16) {
        for (int part = 0; part < 4; part++) {
            int at = thread + part * 256;
            strip_a[at % 16][at / 16] = a[(row + at / 16) * size + k + at % 16];
            strip_b[at / 64][at % 64] = b[(k + at / 64) * size + column + at % 64];
        }
        __syncthreads();
        for (int each = 0; each < 16; each++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += strip_a[each][threadIdx.y * 4 + i] * strip_b[each][threadIdx.x * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + threadIdx.y * 4 + i) * size + column + threadIdx.x * 4 + j] = sums[i][j];
}
