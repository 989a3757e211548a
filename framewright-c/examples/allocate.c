// A complete program: 64 MiB of memory, one CPU.
//
//     cargo build --profile lto -p framewright-c
//     cc -std=c11 -I framewright-c framewright-c/examples/allocate.c target/lto/libframewright_c.a -o allocate
//     ./allocate
//
// README.md has the flags for the shared library and for pkg-config.

#include "framewright.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The "physical memory" of this program starts at frame 256, as if the first MiB belonged to firmware.
#define FIRST_FRAME 256
#define FRAMES 16384

static unsigned char *ram;

// Says which call failed, and why.
static void expect(enum fw_error error, const char *call)
{
    if (error != FW_ERROR_NONE) {
        fprintf(stderr, "%s: %s\n", call, fw_error_text(error));
        exit(1);
    }
}

// --- The machine ---------------------------------------------------------------------------------

// This program has one thread, so it has one CPU. A kernel disables preemption and returns the number of the CPU.
static uint32_t pin(void *context)
{
    (void)context;
    return 0;
}

// A kernel maps all physical memory at one address, as this program does.
static void *address(void *context, uint64_t pfn)
{
    (void)context;
    return ram + (pfn - FIRST_FRAME) * FW_FRAME_SIZE;
}

// A bad free was refused. A kernel logs the report or stops.
static void corruption(void *context, const struct fw_corruption *report)
{
    (void)context;
    printf("reported: %s\n", report->text);
}

// --- The memory ----------------------------------------------------------------------------------

static struct fw_memory *start(void **buffer)
{
    // From firmware: frames 256 to 2304 hold an initrd, the rest is free.
    const struct fw_range map[] = {
        {.start = FIRST_FRAME, .end = 2304, .zone = FW_ZONE_NORMAL, .presence = FW_PRESENCE_IN_USE},
        {.start = 2304, .end = FIRST_FRAME + FRAMES, .zone = FW_ZONE_NORMAL},
    };
    const struct fw_config config = {.ranges = map, .range_count = 2, .cpus = 1};
    const struct fw_platform platform = {.pin = pin, .address = address, .corruption = corruption};

    size_t bytes, align;
    expect(fw_memory_size(&config, &bytes, &align, NULL), "fw_memory_size");
    // A kernel takes the buffer from the map, before it hands the map over.
    *buffer = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (*buffer == NULL) {
        perror("aligned_alloc");
        exit(1);
    }
    struct fw_memory *memory;
    uint64_t at;
    enum fw_error error = fw_memory_init(&memory, &platform, &config, *buffer, bytes, &at);
    if (error == FW_ERROR_OVERLAPPING) {
        fprintf(stderr, "range %llu of the map overlaps the one before\n", (unsigned long long)at);
    }
    expect(error, "fw_memory_init");
    return memory;
}

static void print_counts(struct fw_memory *memory)
{
    struct fw_counts counts;
    uint64_t huge_pages;
    expect(fw_counts(memory, &counts), "fw_counts");
    expect(fw_capacity(memory, FW_PAGEBLOCK_ORDER, &huge_pages), "fw_capacity");
    printf("%llu frames, %llu in use, %llu huge pages\n", (unsigned long long)counts.managed,
           (unsigned long long)counts.in_use, (unsigned long long)huge_pages);
}

int main(void)
{
    ram = calloc(FRAMES, FW_FRAME_SIZE);
    if (ram == NULL) {
        perror("calloc");
        return 1;
    }
    void *buffer;
    struct fw_memory *memory = start(&buffer);
    print_counts(memory);

    // A page for a program: its contents can be moved.
    uint64_t page;
    expect(fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_ZEROED, FW_ANY_NODE, &page), "fw_alloc");
    memset(address(NULL, page), 0x55, FW_FRAME_SIZE);
    // A huge page.
    uint64_t huge;
    expect(fw_alloc(memory, FW_PAGEBLOCK_ORDER, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &huge), "fw_alloc");
    // 1000 frames side by side for a device, aligned to 64 KiB.
    uint64_t ring;
    expect(fw_alloc_frames(memory, 1000, 4, FW_MIGRATETYPE_UNMOVABLE, 0, FW_ANY_NODE, &ring), "fw_alloc_frames");
    print_counts(memory);

    // Blocks are freed with their order, ranges in any parts.
    expect(fw_free(memory, page, 0), "fw_free");
    expect(fw_free(memory, huge, FW_PAGEBLOCK_ORDER), "fw_free");
    expect(fw_free_frames(memory, ring + 300, 700, NULL), "fw_free_frames");
    expect(fw_free_frames(memory, ring, 300, NULL), "fw_free_frames");

    // A second free is refused, and changes nothing.
    enum fw_error error = fw_free(memory, page, 0);
    printf("freed twice: %s\n", fw_error_text(error));

    // The initrd has been unpacked.
    expect(fw_free_frames(memory, FIRST_FRAME, 2304 - FIRST_FRAME, NULL), "fw_free_frames");

    expect(fw_drain(memory), "fw_drain");
    char violation[160];
    if (fw_check(memory, violation, sizeof violation) != FW_ERROR_NONE) {
        fprintf(stderr, "fw_check: %s\n", violation);
        return 1;
    }
    print_counts(memory);
    expect(fw_memory_end(memory), "fw_memory_end");
    free(buffer);
    free(ram);
    return 0;
}
