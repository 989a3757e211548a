// Several threads allocate, free blocks of their own and of other threads, and sometimes drain all lists.
// The first and the last word of every frame are verified. The test runs without a remote barrier,
// and then with one.

#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define FRAMES 8192
#define ROUNDS 20000
// The time limit of a thread, in seconds. On a busy machine it ends before the last round.
#define SECONDS 4
#define HELD 64
#define MAILBOX 128

struct block {
    uint64_t pfn;
    uint32_t order;
};

static struct fw_memory *memory;
static struct ram ram;
// Blocks that wait for another thread to free them: a frame number shifted by 8, and the order plus 1;
// 0 if empty.
static _Atomic uint64_t mailbox[MAILBOX];

static uint64_t *words_of(uint64_t pfn)
{
    return address(&ram, pfn);
}

static void fill(struct block block)
{
    for (uint64_t nth = 0; nth < (uint64_t)1 << block.order; nth++) {
        uint64_t *words = words_of(block.pfn + nth);
        words[0] = block.pfn;
        words[FW_FRAME_SIZE / sizeof *words - 1] = ~block.pfn;
    }
}

static void verify(struct block block)
{
    for (uint64_t nth = 0; nth < (uint64_t)1 << block.order; nth++) {
        uint64_t *words = words_of(block.pfn + nth);
        ASSERT(words[0] == block.pfn);
        ASSERT(words[FW_FRAME_SIZE / sizeof *words - 1] == ~block.pfn);
    }
}

static void give_back(struct block block)
{
    verify(block);
    OK(fw_free(memory, block.pfn, block.order));
}

// Leaves the block to the next thread, and frees the block that was left there.
static void exchange(uint64_t place, struct block block)
{
    uint64_t letter = block.pfn << 8 | (block.order + 1);
    uint64_t other = atomic_exchange(&mailbox[place % MAILBOX], letter);
    if (other != 0) {
        give_back((struct block){.pfn = other >> 8, .order = (uint32_t)(other & 0xff) - 1});
    }
}

static time_t seconds(void)
{
    struct timespec now;
    ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec;
}

static void *work(void *number)
{
    time_t until = seconds() + SECONDS;
    this_cpu = (uint32_t)(uintptr_t)number;
    uint64_t random = 0x9e3779b97f4a7c15u * (this_cpu + 1);
    struct block held[HELD] = {{0}};
    int count = 0;
    for (int round = 0; round < ROUNDS && (round < 500 || seconds() < until); round++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (count < HELD && random % 2 == 0) {
            struct block block = {.order = (uint32_t)(random >> 8) % 4};
            uint32_t of = (uint32_t)(random >> 16) % 3;
            uint32_t flags = random >> 24 & 1 ? FW_FLAG_ZEROED : 0;
            enum fw_error error = fw_alloc(memory, block.order, of, flags, FW_ANY_NODE, &block.pfn);
            if (error == FW_ERROR_BELOW_WATERMARK || error == FW_ERROR_NO_BLOCK_OF_ORDER) {
                continue;
            }
            OK(error);
            ASSERT(flags == 0 || words_of(block.pfn)[17] == 0);
            fill(block);
            held[count++] = block;
        } else if (count > 0) {
            int at = (int)(random >> 8) % count;
            struct block block = held[at < 0 ? 0 : at];
            held[at < 0 ? 0 : at] = held[--count];
            if (random >> 40 & 1) {
                exchange(random >> 48, block);
            } else {
                give_back(block);
            }
        }
        if (round % 1000 == 999) {
            uint64_t frames;
            OK(fw_drain(memory));
            if (fw_alloc_frames(memory, 77, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &frames) == FW_ERROR_NONE) {
                OK(fw_free_frames(memory, frames + 7, 70, NULL));
                OK(fw_free_frames(memory, frames, 7, NULL));
            }
        }
    }
    while (count > 0) {
        give_back(held[--count]);
    }
    OK(fw_cpu_release(memory));
    return NULL;
}

// MEMBARRIER_CMD_PRIVATE_EXPEDITED and its registration. <linux/membarrier.h> may be missing.
#define BARRIER 8
#define REGISTER 16

// Linux runs a memory barrier on every thread of the process.
static void membarrier(void *context, uint32_t cpu)
{
    (void)context;
    (void)cpu;
    ASSERT(syscall(SYS_membarrier, BARRIER, 0, 0) == 0);
}

static void run(bool with_barrier)
{
    const struct fw_range map[] = {{.start = 0, .end = FRAMES, .zone = FW_ZONE_NORMAL}};
    const struct fw_config config = {.ranges = map, .range_count = 1, .cpus = THREADS};
    ram = ram_of(0, FRAMES);
    struct fw_platform platform = platform_of(&ram);
    if (with_barrier) {
        platform.remote_barrier = membarrier;
    }
    memory = memory_of(&platform, &config);
    pthread_t threads[THREADS];
    for (uintptr_t number = 0; number < THREADS; number++) {
        ASSERT(pthread_create(&threads[number], NULL, work, (void *)number) == 0);
    }
    for (int number = 0; number < THREADS; number++) {
        ASSERT(pthread_join(threads[number], NULL) == 0);
    }
    for (uint64_t place = 0; place < MAILBOX; place++) {
        uint64_t letter = atomic_exchange(&mailbox[place], 0);
        if (letter != 0) {
            give_back((struct block){.pfn = letter >> 8, .order = (uint32_t)(letter & 0xff) - 1});
        }
    }
    ASSERT(ram.reports == 0);
    assert_all_free(memory);
    uint64_t huge;
    OK(fw_capacity(memory, FW_PAGEBLOCK_ORDER, &huge));
    ASSERT(huge == FRAMES / 512);
    end(memory);
    free(ram.start);
}

int main(void)
{
    run(false);
    // Not every kernel has the system call.
    if (syscall(SYS_membarrier, REGISTER, 0, 0) == 0) {
        run(true);
    }
    puts("ok");
    return 0;
}
