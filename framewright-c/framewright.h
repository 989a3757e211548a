// Framewright: a physical-memory manager. This file is made from the source by cbindgen.
//
// A memory (struct fw_memory) is one allocator: its frames, its zones and its per-CPU lists. fw_memory_init creates one
// in a buffer of the caller; fw_memory_size computes the size of the buffer. All other calls take the pointer that
// fw_memory_init stores. Frames are numbers: a physical address divided by FW_FRAME_SIZE.
// The machine is a struct of functions, struct fw_platform. Calls return an enum fw_error, which is 0 on success;
// fw_error_text returns the text of an error. A refused call changes nothing.
//
// Threads: all calls may be made on all CPUs at once, on one memory or several, except that
//   - fw_memory_init returns before another CPU uses the memory (publish the pointer with release ordering),
//   - no call is running when fw_memory_end is called, or begins afterwards,
//   - fw_check and exact counts need a moment at which no other CPU uses the memory.
// A CPU is the number that pin of struct fw_platform returns: the number of a CPU in a kernel, or of a thread in a
// program. Interrupt handlers may call fw_alloc (with FW_FLAG_NO_WAIT or FW_FLAG_ATOMIC), fw_free, fw_counts and
// fw_error_text, if irq_save and irq_restore are defined. Handlers of NMIs and of signals may call fw_error_text only.


#ifndef FRAMEWRIGHT_H
#define FRAMEWRIGHT_H


#ifdef __KERNEL__ // A Linux module.
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif


// The highest order: 1 GiB.
#define FW_MAX_ORDER 18

// The order of a pageblock: 2 MiB.
#define FW_PAGEBLOCK_ORDER 9

// The size of a frame, in bytes.
#define FW_FRAME_SIZE 4096

// The node of the CPU is preferred.
#define FW_ANY_NODE -1

// Fills the frames with zeroes. Needs `address` of `struct fw_platform`.
#define FW_FLAG_ZEROED 1

// The request does not wait: no draining of other CPUs. For interrupt handlers, and under locks.
#define FW_FLAG_NO_WAIT 2

// As FW_FLAG_NO_WAIT, and may use most of the frames below the min watermark.
#define FW_FLAG_ATOMIC 4

// Only the given node, or that of the CPU, is used.
#define FW_FLAG_THIS_NODE 8

// Only frames below 4 GiB.
#define FW_FLAG_DMA32 16

// Only frames below 16 MiB.
#define FW_FLAG_DMA 32

// The highest number of ranges of a memory map.
#define FW_MAX_RANGES 128

// The highest number of CPUs of a memory.
#define FW_MAX_CPUS 1024

// Every CPU: see `remote_barrier`.
#define FW_ALL_CPUS 4294967295

// The result of a call. A refused call changes nothing.
enum fw_error {
    // No error.
    FW_ERROR_NONE = 0,
    // The memory is not initialised: the pointer is NULL, or points to a buffer that is still zero, or `fw_memory_end`
    // was called.
    FW_ERROR_NOT_INITIALISED = 1,
    // A pointer that must not be NULL is NULL.
    FW_ERROR_NULL_ARGUMENT = 2,
    // `struct fw_platform` lacks `pin` or `corruption`, or has only one of `irq_save` and `irq_restore`.
    FW_ERROR_NO_FUNCTION = 3,
    // Zeroed frames were requested, but `struct fw_platform` has no `address`.
    FW_ERROR_NOT_MAPPED = 4,
    // The order is too high.
    FW_ERROR_BAD_ORDER = 5,
    // There is no such migratetype.
    FW_ERROR_BAD_MIGRATETYPE = 6,
    // There is no such flag, or the call does not take it.
    FW_ERROR_BAD_FLAGS = 7,
    // There is no such node, or `fw_alloc_frames` got FW_FLAG_THIS_NODE without a node.
    FW_ERROR_BAD_NODE = 8,
    // There is no such kind of zone.
    FW_ERROR_BAD_ZONE = 9,
    // There is no such presence.
    FW_ERROR_BAD_PRESENCE = 10,
    // There is no such setting, or it does not take the value.
    FW_ERROR_BAD_SETTING = 11,
    // The end of the range is below its start, or beyond the highest frame number.
    FW_ERROR_BAD_RANGE = 12,
    // The memory map has too many ranges.
    FW_ERROR_TOO_MANY_RANGES = 13,
    // The number of CPUs is 0.
    FW_ERROR_NO_CPUS = 20,
    // The number of CPUs is too high.
    FW_ERROR_TOO_MANY_CPUS = 21,
    // All ranges of the memory map are absent: no memory is present, in use, or added in pieces.
    FW_ERROR_NO_MEMORY = 22,
    // The number of distances is not the square of the number of nodes.
    FW_ERROR_BAD_DISTANCES = 23,
    // An absent range does not consist of whole pageblocks.
    FW_ERROR_ABSENT_NOT_WHOLE = 24,
    // A range is empty.
    FW_ERROR_EMPTY_RANGE = 25,
    // A range of the memory map starts below the one before.
    FW_ERROR_UNSORTED = 26,
    // A range of the memory map overlaps the one before.
    FW_ERROR_OVERLAPPING = 27,
    // A range of the memory map reaches beyond the highest frame number.
    FW_ERROR_ADDRESS_TOO_HIGH = 28,
    // The setting `owner_lock=biased` needs `remote_barrier`.
    FW_ERROR_NO_REMOTE_BARRIER = 29,
    // The settings `hardening=tracked` and `owner_lock=biased` exclude each other.
    FW_ERROR_TRACKED_AND_BIASED = 30,
    // The memory map spans too many frames.
    FW_ERROR_SPAN_TOO_LARGE = 31,
    // The buffer is too small.
    FW_ERROR_BUFFER_TOO_SMALL = 32,
    // The buffer is not aligned as needed.
    FW_ERROR_BUFFER_MISALIGNED = 33,
    // The memory was made for fewer CPUs.
    FW_ERROR_NO_SUCH_CPU = 40,
    // The CPU is in use.
    FW_ERROR_CPU_IN_USE = 41,
    // The CPU is offline.
    FW_ERROR_CPU_OFFLINE = 42,
    // Out of memory: fewer frames would stay free than the request must leave free.
    FW_ERROR_BELOW_WATERMARK = 50,
    // There is enough free memory, but no free block of the order.
    FW_ERROR_NO_BLOCK_OF_ORDER = 51,
    // Requests cannot ask for this migratetype.
    FW_ERROR_NOT_REQUESTABLE = 52,
    // None of the zones that the request can use has memory.
    FW_ERROR_NO_ZONE = 53,
    // No run of free frames is long enough, or allocating it would violate a watermark.
    FW_ERROR_NOT_FOUND = 54,
    // The frames are not present memory of one zone of this memory.
    FW_ERROR_NOT_OURS = 60,
    // A block of this order cannot start at this frame.
    FW_ERROR_MISALIGNED = 61,
    // Frames are free already.
    FW_ERROR_ALREADY_FREE = 62,
    // No allocated block starts at this frame.
    FW_ERROR_NOT_ALLOCATED = 63,
    // The block at this frame has another order.
    FW_ERROR_WRONG_ORDER = 64,
    // The range does not consist of whole pageblocks. Other ranges are possible only within a range that is added in
    // pieces.
    FW_ERROR_NOT_WHOLE = 70,
    // The memory map does not name the whole range as memory of one zone that may be added or removed.
    FW_ERROR_NOT_IN_MAP = 71,
    // Memory of the range is present already.
    FW_ERROR_PRESENT = 72,
    // Memory of the range is not present.
    FW_ERROR_ABSENT = 73,
    // A pageblock of the range is isolated by another caller.
    FW_ERROR_ISOLATED = 74,
    // Frames of the range are in use.
    FW_ERROR_BUSY = 75,
    // `fw_check` found an invariant that does not hold.
    FW_ERROR_VIOLATION = 80,
    // An error for which this version of the interface has no number.
    FW_ERROR_OTHER = 81,
};

// The mobility of the contents of frames.
enum fw_migratetype {
    // The contents cannot be moved: page tables, kernel objects.
    FW_MIGRATETYPE_UNMOVABLE = 0,
    // The contents can be moved to other frames.
    FW_MIGRATETYPE_MOVABLE = 1,
    // The contents cannot be moved, but can be reclaimed.
    FW_MIGRATETYPE_RECLAIMABLE = 2,
};

// The kind of a zone: the use that its frames are restricted to.
enum fw_zone {
    // Frames that devices with 24 address bits can access: below 16 MiB.
    FW_ZONE_DMA = 0,
    // Frames that devices with 32 address bits can access: below 4 GiB.
    FW_ZONE_DMA32 = 1,
    // Frames for every use.
    FW_ZONE_NORMAL = 2,
    // Frames for movable contents only.
    FW_ZONE_MOVABLE = 3,
};

// Whether a range of the memory map is present from the start.
enum fw_presence {
    // The range is present, and free.
    FW_PRESENCE_PRESENT = 0,
    // The range may be added later, in whole pageblocks.
    FW_PRESENCE_ABSENT = 1,
    // Pieces of any length within this range may be added later.
    FW_PRESENCE_IN_PIECES = 2,
    // The range is present, and in use from the start: its frames count as allocated, and are freed by
    // `fw_free_frames`.
    FW_PRESENCE_IN_USE = 3,
};

// The condition that `wait` waits for.
enum fw_wait {
    // Another CPU releases a lock: short.
    FW_WAIT_LOCK = 0,
    // Another CPU finishes its access to its per-CPU lists: short.
    FW_WAIT_OWNER = 1,
    // Memory becomes free: long.
    FW_WAIT_MEMORY = 2,
};

// A memory: one allocator with its frames, zones and per-CPU lists. `fw_memory_init` creates it in a buffer.
struct fw_memory;

// A range of the memory map.
struct fw_range {
    // The first frame.
    uint64_t start;
    // The first frame after the range (exclusive end).
    uint64_t end;
    // The node, from 0 to 63.
    uint32_t node;
    // The kind of zone: an `enum fw_zone`.
    uint32_t zone;
    // Whether the range is present: an `enum fw_presence`.
    uint32_t presence;
};

// A setting, for example "hardening" and "tracked". The keys are those of `Tuning::set` of the library.
struct fw_setting {
    // The key.
    const char *key;
    // The value.
    const char *value;
};

// The configuration of a memory. Members that are 0 or NULL have their defaults, except `ranges` and `cpus`.
struct fw_config {
    // The memory map: ascending, not overlapping. Gaps are holes.
    const struct fw_range *ranges;
    // The number of ranges, at most FW_MAX_RANGES.
    size_t range_count;
    // The number of CPUs that may ever use the memory, at most FW_MAX_CPUS.
    uint32_t cpus;
    // The node of each CPU. CPUs beyond the end of the array are on node 0.
    const uint8_t *cpu_nodes;
    // The number of elements of `cpu_nodes`.
    size_t cpu_node_count;
    // The distances between nodes, row by row, as in the ACPI SLIT. Without them all nodes are equally far from one
    // another.
    const uint8_t *distances;
    // The number of elements of `distances`: the square of the number of nodes, or 0.
    size_t distance_count;
    // Settings.
    const struct fw_setting *settings;
    // The number of settings.
    size_t setting_count;
};

// A report of hardening: a bad free that was refused, or a stray write into a free frame.
struct fw_corruption {
    // The first frame concerned.
    uint64_t pfn;
    // The order of the block.
    uint32_t order;
    // The reason for a refused free; FW_ERROR_NONE for a stray write.
    enum fw_error error;
    // The number of blocks refused in one batch, or of frames damaged in one block, including this one.
    uint32_t count;
    // The report as a sentence. Valid during the call.
    const char *text;
};

// The machine. `fw_memory_init` copies the struct. Members marked optional may be NULL. Every function gets `context`.
//
// The functions are called on all CPUs at once, and must not call the memory that calls them. They must return
// normally: no longjmp, no C++ exception.
struct fw_platform {
    // Passed to every function.
    void *context;
    // Keeps the caller on its CPU, and returns the number of that CPU, below `cpus` of `struct fw_config`. Until
    // `unpin` is called, no other thread that uses the memory runs on that CPU, except while the caller is in `wait`.
    // Interrupt handlers may run; each ends before the caller continues. The writes of a thread before `unpin` are
    // visible to the next thread that gets the same number. Calls nest. A kernel disables preemption. A program in
    // which each thread has a number of its own returns that number.
    uint32_t (*pin)(void *context);
    // Undoes one call of `pin`. Optional.
    void (*unpin)(void *context, uint32_t cpu);
    // Masks interrupts on this CPU, and returns the state before. Optional: without it, interrupt handlers must not
    // use the memory.
    size_t (*irq_save)(void *context);
    // Restores the state that `irq_save` returned. Required if `irq_save` is defined.
    void (*irq_restore)(void *context, size_t state);
    // The address at which a frame of the memory is mapped, readable and writable, while it is free or being allocated.
    // Optional: without it, FW_FLAG_ZEROED is refused, and hardening=paranoid does not detect stray writes.
    void *(*address)(void *context, uint64_t pfn);
    // The body of every loop that waits, also for locks: `why` is an `enum fw_wait`, and `spins` counts the calls of
    // one loop from 0. In a kernel, relax the CPU. In a user program, yield or sleep briefly after a few spins, because
    // locks are passed on in order of arrival, and the next thread may not be running. Optional: without it, the CPU
    // spins.
    void (*wait)(void *context, uint32_t why, uint32_t spins);
    // A monotonic clock, in nanoseconds. Optional.
    uint64_t (*now)(void *context);
    // Executes a full memory barrier, and returns after the given CPU, or every CPU for FW_ALL_CPUS, has executed one,
    // too. Called with interrupts enabled. Optional: without it, each allocation and free takes a lock of the CPU's
    // lists by an atomic instruction, and is slower.
    void (*remote_barrier)(void *context, uint32_t cpu);
    // Receives reports of bad frees that were refused, and of stray writes. It logs the report, or stops the
    // machine.
    void (*corruption)(void *context, const struct fw_corruption *report);
};

// Counts of frames. They are exact while no other CPU uses the memory; then `free`, `on_cpus`, `in_depots` and
// `in_use` add up to `managed`.
struct fw_counts {
    // Frames that the memory manages.
    uint64_t managed;
    // Free frames in the zones.
    uint64_t free;
    // Free frames on the lists of CPUs.
    uint64_t on_cpus;
    // Free frames in the depots, through which CPUs exchange blocks.
    uint64_t in_depots;
    // Allocated frames, including those in use from the start.
    uint64_t in_use;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Allocates 2^order frames, and stores the number of the first one, a multiple of 2^order. `migratetype` is an
// `enum fw_migratetype`, `flags` are FW_FLAG_..., and `node` is a node or FW_ANY_NODE.
//
// May be called on all CPUs at once, and by interrupt handlers with FW_FLAG_NO_WAIT or FW_FLAG_ATOMIC, but not by NMI
// handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `pfn` is NULL or may be written.
enum fw_error fw_alloc(struct fw_memory *memory,
                       uint32_t order,
                       uint32_t migratetype,
                       uint32_t flags,
                       int32_t node,
                       uint64_t *pfn);

// Frees 2^order frames from `pfn`, which one call of `fw_alloc` has returned.
//
// The setting `hardening` decides which bad frees are refused. With "checked", the default: a free of frames that are
// free in the zone or on a list of this CPU, and a free whose order is not that of the allocation. With "tracked":
// every bad free, unless the block was allocated again meanwhile. With "off": only misaligned frees, and
// frees of frames of another memory. All other refused frees are also reported through `corruption`.
//
// May be called on all CPUs at once, and by interrupt handlers, but not by NMI handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. The caller owns the frames, and no
// longer uses them.
enum fw_error fw_free(struct fw_memory *memory,
                      uint64_t pfn,
                      uint32_t order);

// Allocates any number of contiguous frames, and stores the number of the first one, a multiple of 2^align_order. They
// are freed by `fw_free_frames`, in any parts. May search the zone: for single frames and powers of two `fw_alloc` is
// faster. `flags` are FW_FLAG_THIS_NODE with a node, FW_FLAG_DMA and FW_FLAG_DMA32.
//
// May be called on all CPUs at once, but not by interrupt handlers.
//
// # Safety
//
// As for `fw_alloc`.
enum fw_error fw_alloc_frames(struct fw_memory *memory,
                              uint64_t frames,
                              uint32_t align_order,
                              uint32_t migratetype,
                              uint32_t flags,
                              int32_t node,
                              uint64_t *pfn);

// Frees `frames` frames from `pfn`: frames that `fw_alloc_frames` has returned, or that were in use from the start, or
// any part of such a range.
//
// On an error nothing is freed. If `at` is not NULL, `*at` is the first frame that cannot be freed, or 0 if the error
// does not concern a single frame. The setting `hardening` decides which frees are refused, as for `fw_free`.
//
// May be called on all CPUs at once, but not by interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written. The
// caller owns the frames, and no longer uses them.
enum fw_error fw_free_frames(struct fw_memory *memory,
                             uint64_t pfn,
                             uint64_t frames,
                             uint64_t *at);

// Frees the blocks on the lists of all CPUs to the zones, so that larger blocks form and counts are exact. May be
// called while other CPUs allocate and free, but not by interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
enum fw_error fw_drain(struct fw_memory *memory);

// As `fw_drain`, for one CPU.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
enum fw_error fw_drain_cpu(struct fw_memory *memory, uint32_t cpu);

// Returns half of the frames to the zones that the lists of the CPUs have not needed since the last call. To be called
// about once a second, so that frames of past bursts can become part of larger blocks. May be called while other CPUs
// allocate and free, but not by interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
enum fw_error fw_trim(struct fw_memory *memory);

// Frees the blocks on the lists of the calling CPU, and gives up its ownership of them, so that
// `fw_cpu_offline` can take it offline. The next allocation or free on the CPU takes ownership again. Not for
// interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. The caller is not an interrupt handler.
enum fw_error fw_cpu_release(struct fw_memory *memory);

// Takes offline a CPU that has called `fw_cpu_release`. Its lists stay empty, and those of other CPUs may grow longer.
// Not for interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
enum fw_error fw_cpu_offline(struct fw_memory *memory,
                             uint32_t cpu);

// Brings a CPU online. Not for interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
enum fw_error fw_cpu_online(struct fw_memory *memory, uint32_t cpu);

// Stores the size and the alignment, in bytes, of the buffer that a memory of this configuration needs. By default the
// size is less than one byte per frame plus about 10 KiB per CPU.
//
// On an error, `*at` is as for `fw_memory_init`, if `at` is not NULL.
//
// # Safety
//
// `config` points to a configuration whose arrays have the lengths that it names. `bytes`, `align` and `at` are NULL
// or may be written.
enum fw_error fw_memory_size(const struct fw_config *config,
                             size_t *bytes,
                             size_t *align,
                             uint64_t *at);

// Creates a memory in `buffer`, and stores the pointer to it. All frames that are present are free, except those in
// use from the start. Needs up to 14 KiB of stack.
//
// On an error, `*memory` is NULL. If `at` is not NULL, `*at` is the number that explains the error: the index of a
// range of the map, of a CPU or of a setting, the number of ranges, CPUs or distances that were passed, or the bytes
// or the alignment needed. It is 0 if no number explains the error.
//
// # Safety
//
// `platform` and `config` point to structs that meet the descriptions of their members. The buffer has `buffer_bytes`
// bytes, whose contents do not matter; the memory alone uses them until `fw_memory_end`. `memory` and `at` are NULL or
// may be written. The functions of the platform do what `struct fw_platform` says. No other code uses the frames of
// the map, except those in use from the start. Other CPUs use the memory only after this call has returned: publish
// the pointer with release ordering.
enum fw_error fw_memory_init(struct fw_memory **memory,
                             const struct fw_platform *platform,
                             const struct fw_config *config,
                             void *buffer,
                             size_t buffer_bytes,
                             uint64_t *at);

// Ends a memory: from now on every call fails with FW_ERROR_NOT_INITIALISED. The buffer may be reused after the last
// call for this memory has returned. Frames are not changed.
//
// # Safety
//
// No other call for this memory is running.
enum fw_error fw_memory_end(struct fw_memory *memory);

// Adds `frames` free frames from `pfn`. If the map names the range as FW_PRESENCE_ABSENT, they must be whole
// pageblocks. If it names the range as FW_PRESENCE_IN_PIECES, any number may be added, in any order; adjacent pieces
// are joined.
//
// On an error nothing has changed. If `at` is not NULL: for FW_ERROR_PRESENT, `*at` is the first frame that is present
// already; for FW_ERROR_BAD_RANGE it is `pfn`, and for any other error 0.
//
// May be called on all CPUs at once, but not by interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written.
// No other code uses the frames, which are mapped as `address` of the platform says.
enum fw_error fw_add_memory(struct fw_memory *memory,
                            uint64_t pfn,
                            uint64_t frames,
                            uint64_t *at);

// Removes the range of `frames` frames that starts at `pfn`, so that the allocator no longer hands them out. The range
// must consist of whole pageblocks, all of them free.
//
// On an error nothing has changed. If `at` is not NULL: for FW_ERROR_BUSY, `*at` is the number of frames in use; for
// FW_ERROR_ABSENT, the start of the first pageblock that is not wholly present; for FW_ERROR_ISOLATED, a frame of an
// isolated pageblock; for FW_ERROR_BAD_RANGE, `pfn`; for any other error, 0.
//
// May be called on all CPUs at once, but not by interrupt handlers.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `at` is NULL or may be written.
enum fw_error fw_remove_memory(struct fw_memory *memory,
                               uint64_t pfn,
                               uint64_t frames,
                               uint64_t *at);

// Stores the counts of frames. May be called on all CPUs at once.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `counts` is NULL or may be written.
enum fw_error fw_counts(struct fw_memory *memory,
                        struct fw_counts *counts);

// Stores the number of blocks of 2^order frames that the free frames of the zones form, including parts of larger free
// blocks: for order 9, the huge pages that are free. Watermarks are not considered. Walks every pageblock: for
// reports.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `blocks` is NULL or may be written.
enum fw_error fw_capacity(struct fw_memory *memory,
                          uint32_t order,
                          uint64_t *blocks);

// Checks the invariants of a memory that no other CPU uses at the moment. Walks every pageblock.
//
// If FW_ERROR_VIOLATION is returned and `text` is not NULL, the violated invariant is described there, cut off after
// `text_bytes` bytes, the zero byte at the end included.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `text` is NULL, or has `text_bytes`
// bytes that may be written.
enum fw_error fw_check(struct fw_memory *memory,
                       char *text,
                       size_t text_bytes);

// Writes the free blocks by node, zone and order, as Linux's /proc/buddyinfo. The text is cut off after `text_bytes`
// bytes, the zero byte at the end included. Stores the length of the whole text without that byte, if `length` is not
// NULL.
//
// # Safety
//
// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. `text` is NULL, or has `text_bytes`
// bytes that may be written. `length` is NULL or may be written.
enum fw_error fw_buddyinfo(struct fw_memory *memory,
                           char *text,
                           size_t text_bytes,
                           size_t *length);

// The text of an error, of static lifetime, never NULL. A number that is not an error has a text, too.
const char *fw_error_text(uint32_t error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWRIGHT_H */

// Only with the static library that was built without the feature std: the embedder defines this function, which
// stops the machine. The library calls it if it finds a bug in itself.
#ifdef __cplusplus
extern "C"
#endif
void fw_panic(const char *file, uint32_t line);
