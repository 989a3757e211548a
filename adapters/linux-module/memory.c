// SPDX-License-Identifier: MIT OR Apache-2.0
#include "log.h"

#include <linux/ktime.h>
#include <linux/smp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "memory.h"

struct fw_memory *memory;
char *memory_hardening = "off";
unsigned int memory_mib = 256;
u8 *range;
DEFINE_PER_CPU(unsigned long, holds);

static void *buffer;

/* --- The machine ---------------------------------------------------------------------------- */

static u32 pin(void *context)
{
	return get_cpu();
}

static void unpin(void *context, u32 cpu)
{
	put_cpu();
}

static size_t mask_irqs(void *context)
{
	unsigned long flags;

	local_irq_save(flags);
	__this_cpu_inc(holds);
	return flags;
}

static void restore_irqs(void *context, size_t flags)
{
	local_irq_restore(flags);
}

static void *address(void *context, u64 pfn)
{
	return frame_address(pfn);
}

static void wait_once(void *context, u32 why, u32 spins)
{
	cpu_relax();
}

static u64 now(void *context)
{
	return ktime_get_ns();
}

static void barrier_here(void *nothing)
{
	smp_mb();
}

static void remote_barrier(void *context, u32 cpu)
{
	if (cpu == FW_ALL_CPUS)
		on_each_cpu(barrier_here, NULL, 1);
	else
		smp_call_function_single(cpu, barrier_here, NULL, 1);
	smp_mb();
}

static void corruption(void *context, const struct fw_corruption *report)
{
	fail("%s", report->text);
}

/* The library calls this if it finds a bug in itself. */
void fw_panic(const char *file, u32 line)
{
	panic("framewright: %s:%u", file, line);
}

static const struct fw_platform platform = {
	.pin = pin,
	.unpin = unpin,
	.irq_save = mask_irqs,
	.irq_restore = restore_irqs,
	.address = address,
	.wait = wait_once,
	.now = now,
	.remote_barrier = remote_barrier,
	.corruption = corruption,
};

/* --- The range ------------------------------------------------------------------------------ */

static void give_back(void)
{
	vfree(buffer);
	vfree(range);
	buffer = NULL;
	range = NULL;
}

static long make(void *nothing)
{
	const struct fw_range map = {
		.start = FIRST_FRAME,
		.end = FIRST_FRAME + RANGE_FRAMES,
		.zone = FW_ZONE_NORMAL,
	};
	const struct fw_setting setting = { "hardening", memory_hardening };
	const struct fw_config config = {
		.ranges = &map,
		.range_count = 1,
		.cpus = nr_cpu_ids,
		.settings = &setting,
		.setting_count = 1,
	};
	size_t bytes, align;
	u64 at = 0;
	enum fw_error error = fw_memory_size(&config, &bytes, &align, &at);

	if (error)
		goto refuse;
	range = vmalloc(RANGE_FRAMES << PAGE_SHIFT);
	buffer = vmalloc(bytes + align);
	if (!range || !buffer)
		return -ENOMEM;
	error = fw_memory_init(&memory, &platform, &config, PTR_ALIGN(buffer, align), bytes, &at);
	if (error)
		goto refuse;
	say("memory frames=%lu metadata=%zu cpus=%u hardening=%s", RANGE_FRAMES, bytes, nr_cpu_ids, memory_hardening);
	return 0;
refuse:
	fail("the configuration is refused: %s (number %llu)", fw_error_text(error), at);
	return -EINVAL;
}

int memory_begin(void)
{
	/* fw_memory_init needs up to 14 KiB of the stack's 16: a worker thread has used less of it than this one. */
	int error = work_on_cpu(raw_smp_processor_id(), make, NULL);

	if (error)
		give_back();
	return error;
}

void memory_end(void)
{
	char violation[160];
	struct fw_counts counts = { 0 };

	if (fw_drain(memory))
		fail("the lists cannot be drained");
	if (fw_check(memory, violation, sizeof(violation)))
		fail("check: %s", violation);
	else if (fw_counts(memory, &counts) || counts.free != counts.managed || counts.in_use)
		fail("%llu of %llu frames are free", counts.free, counts.managed);
	else
		say("ended check=Ok free=%llu managed=%llu", counts.free, counts.managed);
	fw_memory_end(memory);
	memory = NULL;
	give_back();
}
