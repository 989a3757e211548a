// A machine of pthreads for tests. Each thread has a number, which is that of its CPU.

#ifndef SUPPORT_H
#define SUPPORT_H

#define _GNU_SOURCE
#include "framewright.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Fails the program with the place and the error, if `call` does not return `wanted`.
#define EXPECT(wanted, call) expect(__FILE__, __LINE__, #call, wanted, call)
#define OK(call) EXPECT(FW_ERROR_NONE, call)
#define ASSERT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static inline void expect(const char *file, int line, const char *call, enum fw_error wanted,
                          enum fw_error found)
{
    if (found != wanted) {
        fprintf(stderr, "%s:%d: %s: %s; expected: %s\n", file, line, call, fw_error_text(found),
                fw_error_text(wanted));
        exit(1);
    }
}

// The contents of frames `first` to `first` + `frames` of a machine.
struct ram {
    uint64_t first;
    uint64_t frames;
    unsigned char *start;
    int reports;
    struct fw_corruption last;
};

static _Thread_local uint32_t this_cpu;

static inline uint32_t pin(void *context)
{
    (void)context;
    return this_cpu;
}

static inline void *address(void *context, uint64_t pfn)
{
    struct ram *ram = context;
    ASSERT(pfn >= ram->first && pfn - ram->first < ram->frames);
    return ram->start + (pfn - ram->first) * FW_FRAME_SIZE;
}

// A ticket lock is passed to the thread that has waited longest, which may not be running. So the others sleep for a
// moment instead of calling sched_yield, which on a busy machine gives up whole time slices.
static inline void nap(void *context, uint32_t why, uint32_t spins)
{
    (void)context;
    ASSERT(why <= FW_WAIT_MEMORY);
    if (spins >= 100) {
        nanosleep(&(const struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static inline void keep_report(void *context, const struct fw_corruption *report)
{
    struct ram *ram = context;
    ASSERT(report->text != NULL && strlen(report->text) > 0);
    ram->last = *report;
    ram->reports += 1;
}

static inline struct ram ram_of(uint64_t first, uint64_t frames)
{
    struct ram ram = {.first = first, .frames = frames, .start = malloc(frames * FW_FRAME_SIZE)};
    ASSERT(ram.start != NULL);
    return ram;
}

static inline struct fw_platform platform_of(struct ram *ram)
{
    return (struct fw_platform){
        .context = ram, .pin = pin, .address = address, .wait = nap, .corruption = keep_report};
}

// An allocator in a buffer from malloc. `end` frees the buffer.
static inline struct fw_memory *memory_of(const struct fw_platform *platform,
                                          const struct fw_config *config)
{
    size_t bytes, align;
    OK(fw_memory_size(config, &bytes, &align, NULL));
    void *buffer = aligned_alloc(align, (bytes + align - 1) / align * align);
    ASSERT(buffer != NULL);
    // The buffer may have any contents.
    memset(buffer, 0xa5, bytes);
    struct fw_memory *memory;
    OK(fw_memory_init(&memory, platform, config, buffer, bytes, NULL));
    return memory;
}

static inline void end(struct fw_memory *memory)
{
    OK(fw_memory_end(memory));
    struct fw_counts counts;
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_counts(memory, &counts));
    // The memory is at the start of its buffer.
    free(memory);
}

// The counts, which add up; the invariants hold.
static inline struct fw_counts checked_counts(struct fw_memory *memory)
{
    char violation[160] = "";
    if (fw_check(memory, violation, sizeof violation) != FW_ERROR_NONE) {
        fprintf(stderr, "fw_check: %s\n", violation);
        exit(1);
    }
    struct fw_counts counts;
    OK(fw_counts(memory, &counts));
    ASSERT(counts.free + counts.on_cpus + counts.in_depots + counts.in_use == counts.managed);
    return counts;
}

static inline void assert_all_free(struct fw_memory *memory)
{
    OK(fw_drain(memory));
    struct fw_counts counts = checked_counts(memory);
    ASSERT(counts.in_use == 0);
    ASSERT(counts.free == counts.managed);
}

#endif
