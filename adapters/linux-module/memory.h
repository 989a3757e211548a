/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A range of the kernel's memory that the library manages. */
#ifndef MEMORY_H
#define MEMORY_H

#include <linux/percpu.h>
#include <linux/types.h>

#include "framewright.h"

/* The size of the range. */
extern unsigned int memory_mib;
#define RANGE_FRAMES ((unsigned long)memory_mib << (20 - PAGE_SHIFT))
/* The number of the first frame. Frame 0 stays unused, so that 0 means no block. */
#define FIRST_FRAME 512UL

extern struct fw_memory *memory;
/* The setting `hardening`: how the library checks frees. */
extern char *memory_hardening;
/* The address of the first frame. */
extern u8 *range;
/* The number of times that the library masked the interrupts of a CPU: once for each hold of one of its locks. */
DECLARE_PER_CPU(unsigned long, holds);

/* Takes a range from the kernel and hands it to the library. Returns 0 or a negative error. */
int memory_begin(void);
/* Runs the library's check, checks that every frame is free, and gives the range back. Logs errors. */
void memory_end(void);

static inline void *frame_address(u64 pfn)
{
	return range + ((pfn - FIRST_FRAME) << PAGE_SHIFT);
}

#endif
