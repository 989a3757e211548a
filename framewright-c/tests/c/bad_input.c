// Each wrong call is refused with a named error. Nothing is lost: the invariants hold, and the counts are as before.

#include "support.h"

#define FIRST 512
#define FRAMES 4096

static struct fw_memory *memory;
static struct fw_counts before;

// Expects the error, and that the call has changed nothing.
#define REFUSED(wanted, call) \
    do { \
        EXPECT(wanted, call); \
        struct fw_counts now = checked_counts(memory); \
        ASSERT(now.managed == before.managed && now.in_use == before.in_use); \
    } while (0)

static void remember(void)
{
    before = checked_counts(memory);
}

static uint64_t alloc(uint32_t order)
{
    uint64_t pfn;
    OK(fw_alloc(memory, order, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    return pfn;
}

static uint64_t alloc_frames(uint64_t frames)
{
    uint64_t pfn;
    OK(fw_alloc_frames(memory, frames, 0, FW_MIGRATETYPE_UNMOVABLE, 0, FW_ANY_NODE, &pfn));
    return pfn;
}

static void every_call_fails(struct fw_memory *none)
{
    uint64_t number;
    size_t length;
    char text[8];
    struct fw_counts counts;
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_alloc(none, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_free(none, FIRST, 0));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_alloc_frames(none, 3, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_free_frames(none, FIRST, 3, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_add_memory(none, FIRST, 512, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_remove_memory(none, FIRST, 512, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_drain(none));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_drain_cpu(none, 0));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_trim(none));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_cpu_release(none));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_cpu_offline(none, 0));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_cpu_online(none, 0));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_counts(none, &counts));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_capacity(none, 9, &number));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_check(none, text, sizeof text));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_buddyinfo(none, text, sizeof text, &length));
    EXPECT(FW_ERROR_NOT_INITIALISED, fw_memory_end(none));
}

static void blocks_freed_wrongly(void)
{
    uint64_t page = alloc(0), pair = alloc(1), huge = alloc(9);
    remember();
    REFUSED(FW_ERROR_NOT_OURS, fw_free(memory, FIRST + FRAMES, 0));
    REFUSED(FW_ERROR_NOT_OURS, fw_free(memory, FIRST - 512, 9));
    REFUSED(FW_ERROR_NOT_OURS, fw_free(memory, UINT64_MAX, 0));
    REFUSED(FW_ERROR_MISALIGNED, fw_free(memory, pair + 1, 1));
    REFUSED(FW_ERROR_WRONG_ORDER, fw_free(memory, huge, 1));
    REFUSED(FW_ERROR_NOT_ALLOCATED, fw_free(memory, huge + 8, 3));
    REFUSED(FW_ERROR_BAD_ORDER, fw_free(memory, page, FW_MAX_ORDER + 1));
    OK(fw_free(memory, page, 0));
    OK(fw_free(memory, pair, 1));
    OK(fw_free(memory, huge, 9));
    remember();
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free(memory, page, 0));
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free(memory, pair, 1));
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free(memory, huge, 9));
}

static void ranges_freed_wrongly(struct ram *ram)
{
    uint64_t at = 0;
    OK(fw_drain(memory));
    uint64_t range = alloc_frames(1000);
    remember();
    int reports = ram->reports;
    // The range is longer than the allocated one: the frame behind that is free.
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free_frames(memory, range, 1001, &at));
    ASSERT(at == range + 1000);
    ASSERT(ram->reports == reports + 1 && ram->last.error == FW_ERROR_ALREADY_FREE);
    ASSERT(ram->last.pfn == at);
    // The range ends beyond the end of the memory.
    REFUSED(FW_ERROR_NOT_OURS, fw_free_frames(memory, range, FRAMES, &at));
    REFUSED(FW_ERROR_BAD_RANGE, fw_free_frames(memory, range, UINT64_MAX, &at));
    REFUSED(FW_ERROR_EMPTY_RANGE, fw_free_frames(memory, range, 0, &at));
    // A part is freed, and then the whole range.
    OK(fw_free_frames(memory, range + 300, 200, NULL));
    remember();
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free_frames(memory, range, 1000, &at));
    ASSERT(at == range + 300);
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free_frames(memory, range + 499, 2, &at));
    ASSERT(at == range + 499);
    OK(fw_free_frames(memory, range, 300, NULL));
    OK(fw_free_frames(memory, range + 500, 500, NULL));
    remember();
    // The whole range is freed twice.
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free_frames(memory, range, 1000, &at));
    ASSERT(at == range);
    REFUSED(FW_ERROR_ALREADY_FREE, fw_free_frames(memory, range + 500, 500, NULL));
}

// Frames of another allocator are refused.
static void frames_of_another(struct fw_memory *other)
{
    uint64_t page, range;
    OK(fw_alloc(other, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &page));
    OK(fw_alloc_frames(other, 100, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &range));
    remember();
    REFUSED(FW_ERROR_NOT_OURS, fw_free(memory, page, 0));
    REFUSED(FW_ERROR_NOT_OURS, fw_free_frames(memory, range, 100, NULL));
    OK(fw_free(other, page, 0));
    OK(fw_free_frames(other, range, 100, NULL));
    assert_all_free(other);
}

static void requests_that_make_no_sense(struct fw_memory *unmapped)
{
    uint64_t pfn;
    remember();
    REFUSED(FW_ERROR_BAD_ORDER, fw_alloc(memory, 19, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_ORDER, fw_alloc(memory, 256, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_MIGRATETYPE, fw_alloc(memory, 0, 3, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_MIGRATETYPE, fw_alloc(memory, 0, 257, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_FLAGS, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 64, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_NODE, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 0, 64, &pfn));
    REFUSED(FW_ERROR_BAD_NODE, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 0, -2, &pfn));
    REFUSED(FW_ERROR_NO_ZONE, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_DMA, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_NULL_ARGUMENT, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, NULL));
    REFUSED(FW_ERROR_EMPTY_RANGE, fw_alloc_frames(memory, 0, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_NOT_FOUND, fw_alloc_frames(memory, FRAMES + 1, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_NOT_FOUND, fw_alloc_frames(memory, UINT64_MAX, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_FLAGS, fw_alloc_frames(memory, 3, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_ZEROED, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_BAD_NODE, fw_alloc_frames(memory, 3, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_THIS_NODE, FW_ANY_NODE, &pfn));
    REFUSED(FW_ERROR_NULL_ARGUMENT, fw_alloc_frames(memory, 3, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, NULL));
    REFUSED(FW_ERROR_NULL_ARGUMENT, fw_counts(memory, NULL));
    REFUSED(FW_ERROR_NULL_ARGUMENT, fw_capacity(memory, 9, NULL));
    EXPECT(FW_ERROR_NOT_MAPPED, fw_alloc(unmapped, 0, FW_MIGRATETYPE_MOVABLE, FW_FLAG_ZEROED, FW_ANY_NODE, &pfn));
    assert_all_free(unmapped);
}

// A CPU that was not declared does not allocate. Frames that it frees are not lost.
static void more_cpus_than_declared(void)
{
    uint64_t pfn, page = alloc(0);
    remember();
    const uint32_t undeclared[] = {2, 65536, UINT32_MAX};
    for (int nth = 0; nth < 3; nth++) {
        this_cpu = undeclared[nth];
        REFUSED(FW_ERROR_NO_SUCH_CPU, fw_alloc(memory, 0, FW_MIGRATETYPE_MOVABLE, 0, FW_ANY_NODE, &pfn));
        REFUSED(FW_ERROR_NO_SUCH_CPU, fw_cpu_release(memory));
        REFUSED(FW_ERROR_NO_SUCH_CPU, fw_drain_cpu(memory, this_cpu));
        REFUSED(FW_ERROR_NO_SUCH_CPU, fw_cpu_offline(memory, this_cpu));
        REFUSED(FW_ERROR_NO_SUCH_CPU, fw_cpu_online(memory, this_cpu));
    }
    OK(fw_free(memory, page, 0));
    this_cpu = 0;
    remember();
    REFUSED(FW_ERROR_CPU_IN_USE, fw_cpu_offline(memory, 0));
}

// A piece is refused if it overlaps present memory, or if the map does not name it.
static void pieces_that_overlap(struct ram *ram)
{
    const struct fw_range map[] = {
        {.start = FIRST, .end = FIRST + FRAMES, .zone = FW_ZONE_NORMAL, .presence = FW_PRESENCE_IN_PIECES}};
    const struct fw_config config = {.ranges = map, .range_count = 1, .cpus = 2};
    const struct fw_platform platform = platform_of(ram);
    struct fw_memory *main_memory = memory;
    memory = memory_of(&platform, &config);
    uint64_t at = 0;
    OK(fw_add_memory(memory, FIRST + 100, 900, NULL));
    remember();
    REFUSED(FW_ERROR_PRESENT, fw_add_memory(memory, FIRST, 101, &at));
    ASSERT(at == FIRST + 100);
    REFUSED(FW_ERROR_PRESENT, fw_add_memory(memory, FIRST + 999, 10, &at));
    ASSERT(at == FIRST + 999);
    REFUSED(FW_ERROR_PRESENT, fw_add_memory(memory, FIRST + 100, 900, NULL));
    REFUSED(FW_ERROR_NOT_WHOLE, fw_add_memory(memory, FIRST + FRAMES - 1, 2, NULL));
    REFUSED(FW_ERROR_NOT_IN_MAP, fw_add_memory(memory, FIRST + FRAMES, 512, NULL));
    REFUSED(FW_ERROR_BAD_RANGE, fw_add_memory(memory, FIRST, UINT64_MAX, NULL));
    // Frames that were not added yet are not freed.
    REFUSED(FW_ERROR_NOT_OURS, fw_free_frames(memory, FIRST, 100, NULL));
    REFUSED(FW_ERROR_NOT_OURS, fw_free(memory, FIRST, 0));
    OK(fw_add_memory(memory, FIRST, 100, NULL));
    assert_all_free(memory);
    end(memory);
    memory = main_memory;
}

static void wrong_configurations(struct ram *ram)
{
    struct fw_range map[] = {{.start = 0, .end = 1024, .zone = FW_ZONE_NORMAL},
                             {.start = 1024, .end = 2048, .zone = FW_ZONE_NORMAL}};
    const struct fw_setting settings[] = {{"hardening", "off"}, {"no.such", "setting"}};
    const struct fw_setting values[] = {{"hardening", "perhaps"}};
    const struct fw_setting biased[] = {{"owner_lock", "biased"}};
    const struct fw_config good = {.ranges = map, .range_count = 2, .cpus = 2};
    const struct fw_platform platform = platform_of(ram);
    struct fw_config config = good;
    struct fw_memory *none = NULL;
    size_t bytes, align;
    uint64_t at = 99;
    OK(fw_memory_size(&good, &bytes, &align, NULL));
    unsigned char *buffer = aligned_alloc(align, (bytes + 2 * align - 1) / align * align);
    ASSERT(buffer != NULL);
#define WRONG(wanted, place) \
    do { \
        EXPECT(wanted, fw_memory_size(&config, &bytes, &align, &at)); \
        ASSERT(at == (place)); \
        none = (void *)&none; \
        EXPECT(wanted, fw_memory_init(&none, &platform, &config, buffer, bytes, &at)); \
        ASSERT(at == (place) && none == NULL); \
        config = good; \
        map[0] = (struct fw_range){.start = 0, .end = 1024, .zone = FW_ZONE_NORMAL}; \
        map[1] = (struct fw_range){.start = 1024, .end = 2048, .zone = FW_ZONE_NORMAL}; \
    } while (0)
    map[1].start = 1023;
    WRONG(FW_ERROR_OVERLAPPING, 1);
    map[0] = map[1];
    map[1].start = 0;
    WRONG(FW_ERROR_UNSORTED, 1);
    map[1].end = 1024;
    WRONG(FW_ERROR_EMPTY_RANGE, 1);
    map[1].end = 1023;
    WRONG(FW_ERROR_BAD_RANGE, 1);
    map[1].end = UINT64_MAX;
    WRONG(FW_ERROR_ADDRESS_TOO_HIGH, 1);
    map[1].node = 64;
    WRONG(FW_ERROR_BAD_NODE, 1);
    map[1].zone = 4;
    WRONG(FW_ERROR_BAD_ZONE, 1);
    map[1].presence = 4;
    WRONG(FW_ERROR_BAD_PRESENCE, 1);
    map[0].end = 1000;
    map[0].presence = FW_PRESENCE_ABSENT;
    WRONG(FW_ERROR_ABSENT_NOT_WHOLE, 0);
    map[1].end = (uint64_t)1 << 40;
    WRONG(FW_ERROR_SPAN_TOO_LARGE, 0);
    config.range_count = 0;
    WRONG(FW_ERROR_NO_MEMORY, 0);
    config.range_count = FW_MAX_RANGES + 1;
    config.ranges = calloc(config.range_count, sizeof *config.ranges);
    struct fw_range *many = (struct fw_range *)config.ranges;
    WRONG(FW_ERROR_TOO_MANY_RANGES, FW_MAX_RANGES + 1);
    free(many);
    config.ranges = NULL;
    WRONG(FW_ERROR_NULL_ARGUMENT, 0);
    config.cpus = 0;
    WRONG(FW_ERROR_NO_CPUS, 0);
    config.cpus = FW_MAX_CPUS + 1;
    WRONG(FW_ERROR_TOO_MANY_CPUS, FW_MAX_CPUS + 1);
    config.cpus = 65537;
    WRONG(FW_ERROR_TOO_MANY_CPUS, 65537);
    config.cpu_nodes = (const uint8_t[]){0, 64};
    config.cpu_node_count = 2;
    WRONG(FW_ERROR_BAD_NODE, 1);
    config.distances = (const uint8_t[]){10, 20};
    config.distance_count = 2;
    WRONG(FW_ERROR_BAD_DISTANCES, 2);
    config.settings = settings;
    config.setting_count = 2;
    WRONG(FW_ERROR_BAD_SETTING, 1);
    config.settings = values;
    config.setting_count = 1;
    WRONG(FW_ERROR_BAD_SETTING, 0);
    config.settings = &(const struct fw_setting){NULL, NULL};
    config.setting_count = 1;
    WRONG(FW_ERROR_BAD_SETTING, 0);
#undef WRONG
    // Errors that depend on the machine or on the buffer.
    OK(fw_memory_size(&good, &bytes, &align, NULL));
    config.settings = biased;
    config.setting_count = 1;
    EXPECT(FW_ERROR_NO_REMOTE_BARRIER, fw_memory_init(&none, &platform, &config, buffer, bytes, NULL));
    EXPECT(FW_ERROR_BUFFER_TOO_SMALL, fw_memory_init(&none, &platform, &good, buffer, bytes - 1, &at));
    ASSERT(at == bytes);
    EXPECT(FW_ERROR_BUFFER_MISALIGNED, fw_memory_init(&none, &platform, &good, buffer + 1, bytes, &at));
    ASSERT(at == align);
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_init(NULL, &platform, &good, buffer, bytes, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_init(&none, NULL, &good, buffer, bytes, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_init(&none, &platform, NULL, buffer, bytes, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_init(&none, &platform, &good, NULL, bytes, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_size(NULL, &bytes, &align, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_size(&good, NULL, &align, NULL));
    EXPECT(FW_ERROR_NULL_ARGUMENT, fw_memory_size(&good, &bytes, NULL, NULL));
    struct fw_platform lacking = platform;
    lacking.pin = NULL;
    EXPECT(FW_ERROR_NO_FUNCTION, fw_memory_init(&none, &lacking, &good, buffer, bytes, NULL));
    lacking = platform;
    lacking.corruption = NULL;
    EXPECT(FW_ERROR_NO_FUNCTION, fw_memory_init(&none, &lacking, &good, buffer, bytes, NULL));
    free(buffer);
}

static void with_hardening(const char *level)
{
    const struct fw_setting settings[] = {{"hardening", level}};
    const struct fw_range map[] = {{.start = FIRST, .end = FIRST + FRAMES, .zone = FW_ZONE_NORMAL}};
    const struct fw_range elsewhere[] = {{.start = 1 << 20, .end = (1 << 20) + 1024, .zone = FW_ZONE_NORMAL}};
    struct fw_config config = {
        .ranges = map, .range_count = 1, .cpus = 2, .settings = settings, .setting_count = 1};
    struct ram ram = ram_of(FIRST, FRAMES);
    const struct fw_platform platform = platform_of(&ram);
    struct fw_platform without_address = platform;
    without_address.address = NULL;
    memory = memory_of(&platform, &config);
    config.ranges = elsewhere;
    struct fw_memory *other = memory_of(&without_address, &config);

    blocks_freed_wrongly();
    ranges_freed_wrongly(&ram);
    frames_of_another(other);
    requests_that_make_no_sense(other);
    more_cpus_than_declared();
    pieces_that_overlap(&ram);
    wrong_configurations(&ram);

    assert_all_free(memory);
    end(memory);
    end(other);
    free(ram.start);
}

int main(void)
{
    // Before the initialisation: no pointer, and a static that is still zero.
    static max_align_t zeroes[1024];
    every_call_fails(NULL);
    every_call_fails((struct fw_memory *)(void *)zeroes);
    with_hardening("checked");
    with_hardening("tracked");
    // Every number has a text, also one that is not an error.
    for (uint32_t one = 0; one <= FW_ERROR_OTHER; one++) {
        ASSERT(strlen(fw_error_text(one)) > 0);
    }
    ASSERT(strcmp(fw_error_text(9999), "this number is not an error") == 0);
    puts("ok");
    return 0;
}
