// The effects of each call when it is used as the header says.

#include "support.h"

// Node 0 has frames below and above 16 MiB. Some frames of node 1 are added later.
#define DMA_END 4096
#define NODE_1 8192
#define END 16384

static struct ram ram;
static struct fw_memory *memory;

// A handler of interrupts that is due: the machine calls it the next time that interrupts are masked.
static void (*handler)(void);
static int masked;

static size_t irq_save(void *context)
{
    (void)context;
    if (handler != NULL && masked == 0) {
        void (*due)(void) = handler;
        handler = NULL;
        due();
    }
    return (size_t)masked++;
}

static void irq_restore(void *context, size_t state)
{
    (void)context;
    masked -= 1;
    ASSERT((size_t)masked == state);
}

static int pinned;

static uint32_t pin_and_count(void *context)
{
    pinned += 1;
    return pin(context);
}

static void unpin(void *context, uint32_t cpu)
{
    (void)context;
    ASSERT(cpu == this_cpu);
    pinned -= 1;
}

static uint64_t nanoseconds(void *context)
{
    static uint64_t now;
    (void)context;
    return now += 1000;
}

static uint64_t alloc(uint32_t order, uint32_t of, uint32_t flags, int32_t node)
{
    uint64_t pfn;
    OK(fw_alloc(memory, order, of, flags, node, &pfn));
    ASSERT(pfn % ((uint64_t)1 << order) == 0);
    return pfn;
}

static struct fw_memory *start(const char *hardening)
{
    static const struct fw_range map[] = {
        {.start = 16, .end = 1000, .zone = FW_ZONE_DMA},
        {.start = 1024, .end = DMA_END, .zone = FW_ZONE_DMA},
        {.start = DMA_END, .end = NODE_1, .zone = FW_ZONE_NORMAL},
        {.start = NODE_1, .end = 9000, .node = 1, .zone = FW_ZONE_NORMAL, .presence = FW_PRESENCE_IN_USE},
        {.start = 9000, .end = 12288, .node = 1, .zone = FW_ZONE_NORMAL, .presence = FW_PRESENCE_IN_PIECES},
        {.start = 12288, .end = END, .node = 1, .zone = FW_ZONE_NORMAL, .presence = FW_PRESENCE_ABSENT},
    };
    const uint8_t nodes[] = {0, 1};
    const uint8_t distances[] = {10, 20, 20, 10};
    const struct fw_setting settings[] = {{"hardening", hardening}, {"zone.min_free", "64"}};
    const struct fw_config config = {.ranges = map,
                                     .range_count = 6,
                                     .cpus = 2,
                                     .cpu_nodes = nodes,
                                     .cpu_node_count = 2,
                                     .distances = distances,
                                     .distance_count = 4,
                                     .settings = settings,
                                     .setting_count = 2};
    struct fw_platform platform = platform_of(&ram);
    platform.pin = pin_and_count;
    platform.unpin = unpin;
    platform.irq_save = irq_save;
    platform.irq_restore = irq_restore;
    platform.now = nanoseconds;
    return memory_of(&platform, &config);
}

static void pieces_and_memory_in_use(void)
{
    struct fw_counts counts = checked_counts(memory);
    ASSERT(counts.in_use == 9000 - NODE_1);
    ASSERT(counts.managed == 1000 - 16 + 9000 - 1024);
    // Pieces in any order; then whole pageblocks.
    OK(fw_add_memory(memory, 11000, 1288, NULL));
    OK(fw_add_memory(memory, 9000, 2000, NULL));
    OK(fw_add_memory(memory, 12288, END - 12288, NULL));
    // Memory in use is freed in parts.
    OK(fw_free_frames(memory, NODE_1 + 100, 700, NULL));
    OK(fw_free_frames(memory, NODE_1, 100, NULL));
    OK(fw_free_frames(memory, NODE_1 + 800, 8, NULL));
    assert_all_free(memory);
    ASSERT(checked_counts(memory).managed == END - 24 - 16);
    // Adjacent pieces were joined: node 1 is free in whole pageblocks.
    uint64_t huge;
    OK(fw_capacity(memory, 9, &huge));
    ASSERT(huge == 31 - 1);
    OK(fw_capacity(memory, 0, &huge));
    ASSERT(huge == END - 24 - 16);
    // Memory that is in use is not removed.
    uint64_t frames, at = 0;
    OK(fw_alloc_frames(memory, 5, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_THIS_NODE, 1, &frames));
    ASSERT(frames >= NODE_1);
    uint64_t block = frames / 512 * 512;
    EXPECT(FW_ERROR_BUSY, fw_remove_memory(memory, block, 512, &at));
    ASSERT(at == 5);
    OK(fw_free_frames(memory, frames, 5, NULL));
    OK(fw_remove_memory(memory, 12288, 512, NULL));
    EXPECT(FW_ERROR_ABSENT, fw_remove_memory(memory, 12288, 512, &at));
    ASSERT(at == 12288);
    OK(fw_add_memory(memory, 12288, 512, NULL));
    assert_all_free(memory);
}

static void requests(void)
{
    // Each CPU gets memory of its own node, unless it asks for another.
    uint64_t here = alloc(0, FW_MIGRATETYPE_UNMOVABLE, 0, FW_ANY_NODE);
    ASSERT(here < NODE_1);
    this_cpu = 1;
    uint64_t near = alloc(3, FW_MIGRATETYPE_RECLAIMABLE, 0, FW_ANY_NODE);
    ASSERT(near >= NODE_1);
    uint64_t far = alloc(2, FW_MIGRATETYPE_MOVABLE, 0, 0);
    ASSERT(far < NODE_1);
    uint64_t low = alloc(1, FW_MIGRATETYPE_UNMOVABLE, FW_FLAG_DMA, FW_ANY_NODE);
    ASSERT(low < DMA_END);
    uint64_t below_4g = alloc(0, FW_MIGRATETYPE_UNMOVABLE, FW_FLAG_DMA32, FW_ANY_NODE);
    ASSERT(below_4g < DMA_END);
    // Node 1 has no memory below 16 MiB.
    uint64_t none;
    EXPECT(FW_ERROR_NO_ZONE,
           fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_THIS_NODE | FW_FLAG_DMA, 1, &none));
    // Zeroed frames.
    memset(address(&ram, near), 0x77, 8 * FW_FRAME_SIZE);
    OK(fw_free(memory, near, 3));
    uint64_t zeroed = alloc(3, FW_MIGRATETYPE_RECLAIMABLE, FW_FLAG_ZEROED | FW_FLAG_ATOMIC, FW_ANY_NODE);
    const unsigned char *bytes = address(&ram, zeroed);
    for (int at = 0; at < 8 * FW_FRAME_SIZE; at++) {
        ASSERT(bytes[at] == 0);
    }
    // Contiguous frames: aligned, of a node, in low memory.
    uint64_t frames, dma;
    OK(fw_alloc_frames(memory, 700, 6, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &frames));
    ASSERT(frames % 64 == 0);
    OK(fw_alloc_frames(memory, 33, 0, FW_MIGRATETYPE_UNMOVABLE, FW_FLAG_DMA, 0, &dma));
    ASSERT(dma + 33 <= DMA_END);
    this_cpu = 0;
    struct fw_counts counts = checked_counts(memory);
    ASSERT(counts.in_use == 1 + 4 + 2 + 1 + 8 + 700 + 33);
    ASSERT(ram.reports == 0);
    OK(fw_free_frames(memory, frames, 700, NULL));
    OK(fw_free_frames(memory, dma, 33, NULL));
    // Blocks are freed on any CPU.
    OK(fw_free(memory, zeroed, 3));
    OK(fw_free(memory, far, 2));
    OK(fw_free(memory, low, 1));
    OK(fw_free(memory, below_4g, 0));
    OK(fw_free(memory, here, 0));
    // Huge pages are allocated until a request is refused.
    uint64_t taken[64];
    int count = 0;
    enum fw_error error;
    while ((error = fw_alloc(memory, 9, FW_MIGRATETYPE_MOVABLE, FW_FLAG_NO_WAIT, FW_ANY_NODE, &taken[count]))
           == FW_ERROR_NONE) {
        count += 1;
    }
    ASSERT(error == FW_ERROR_BELOW_WATERMARK || error == FW_ERROR_NO_BLOCK_OF_ORDER);
    ASSERT(count > 20);
    while (count > 0) {
        OK(fw_free(memory, taken[--count], 9));
    }
}

static uint64_t from_handler;

static void allocate_in_handler(void)
{
    // The lists of the CPU are in use by the interrupted call.
    OK(fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_ATOMIC, FW_ANY_NODE, &from_handler));
}

static void free_in_handler(void)
{
    OK(fw_free(memory, from_handler, 0));
    from_handler = 0;
}

static void interrupts(void)
{
    uint64_t pages[400];
    handler = allocate_in_handler;
    for (int nth = 0; nth < 400; nth++) {
        pages[nth] = alloc(0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE);
        ASSERT(pages[nth] != from_handler);
    }
    ASSERT(handler == NULL && from_handler != 0);
    handler = free_in_handler;
    for (int nth = 0; nth < 400; nth++) {
        OK(fw_free(memory, pages[nth], 0));
    }
    OK(fw_drain(memory));
    ASSERT(handler == NULL && from_handler == 0);
    checked_counts(memory);
}

static void cpus_come_and_go(void)
{
    this_cpu = 1;
    uint64_t page = alloc(0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE), other;
    OK(fw_free(memory, page, 0));
    EXPECT(FW_ERROR_CPU_IN_USE, fw_cpu_offline(memory, 1));
    OK(fw_cpu_release(memory));
    OK(fw_cpu_offline(memory, 1));
    EXPECT(FW_ERROR_CPU_OFFLINE, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &other));
    OK(fw_cpu_online(memory, 1));
    OK(fw_drain_cpu(memory, 1));
    OK(fw_free(memory, alloc(0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE), 0));
    this_cpu = 0;
}

static void trims(int in_quarantine)
{
    static uint64_t pages[1000];
    for (int nth = 0; nth < 1000; nth++) {
        pages[nth] = alloc(0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE);
    }
    for (int nth = 0; nth < 1000; nth++) {
        OK(fw_free(memory, pages[nth], 0));
    }
    OK(fw_trim(memory));
    struct fw_counts before = checked_counts(memory);
    OK(fw_trim(memory));
    struct fw_counts after = checked_counts(memory);
    ASSERT(in_quarantine ? after.on_cpus == before.on_cpus : after.on_cpus < before.on_cpus);
}

static void tables(void)
{
    size_t length = 0, again = 0;
    char cut_off[10];
    OK(fw_buddyinfo(memory, NULL, 0, &length));
    char *text = malloc(length + 1);
    ASSERT(text != NULL);
    OK(fw_buddyinfo(memory, text, length + 1, &again));
    ASSERT(length == again && strlen(text) == length);
    ASSERT(strstr(text, "Node 0, zone      DMA") != NULL && strstr(text, "Node 1, zone   Normal") != NULL);
    OK(fw_buddyinfo(memory, cut_off, sizeof cut_off, NULL));
    ASSERT(strlen(cut_off) == 9 && strncmp(text, cut_off, 9) == 0);
    free(text);
}

// hardening=paranoid: a write to a free frame is reported when the frame is allocated.
static void stray_writes(void)
{
    uint64_t taken[64];
    int count = 0, reports = ram.reports;
    uint64_t page = alloc(0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE);
    OK(fw_free(memory, page, 0));
    EXPECT(FW_ERROR_ALREADY_FREE, fw_free(memory, page, 0));
    ASSERT(ram.reports == reports + 1);
    ((unsigned char *)address(&ram, page))[1234] ^= 1;
    OK(fw_drain(memory));
    while (count < 64 && ram.reports == reports + 1
           && fw_alloc(memory, 9, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &taken[count]) == FW_ERROR_NONE) {
        count += 1;
    }
    ASSERT(ram.reports == reports + 2);
    ASSERT(ram.last.error == FW_ERROR_NONE && ram.last.pfn == page);
    while (count > 0) {
        OK(fw_free(memory, taken[--count], 9));
    }
}

int main(void)
{
    const char *levels[] = {"off", "checked", "tracked", "paranoid"};
    for (int level = 0; level < 4; level++) {
        ram = ram_of(0, END);
        memory = start(levels[level]);
        pieces_and_memory_in_use();
        requests();
        interrupts();
        cpus_come_and_go();
        trims(level == 3);
        tables();
        if (level == 3) {
            stray_writes();
        }
        ASSERT(pinned == 0 && masked == 0);
        assert_all_free(memory);
        end(memory);
        free(ram.start);
    }
    puts("ok");
    return 0;
}
