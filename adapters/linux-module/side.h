/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The allocators that do the same work. A block is a number: the address of its struct page, or the number of its first
 * frame; 0 is no block. The functions are inlined into the work, so that no side pays for an indirect call.
 */
#ifndef SIDE_H
#define SIDE_H

#include <linux/gfp.h>
#include <linux/mm.h>

#include "memory.h"

#define inlined static __always_inline

struct side {
	/* `movable`: for user pages, otherwise for the kernel's own. */
	unsigned long (*alloc)(unsigned int order, bool movable);
	void (*free)(unsigned long block, unsigned int order);
	/* Called with each block after its allocation and before its free. `check` returns the number of wrong words. */
	void (*stamp)(unsigned long block, unsigned int order);
	unsigned long (*check)(unsigned long block, unsigned int order);
};

/* --- No allocator: the cost of the work itself, which is subtracted -------------------------- */

inlined unsigned long nothing_alloc(unsigned int order, bool movable)
{
	unsigned long block = 1;

	/* The compiler must not know the value. */
	OPTIMIZER_HIDE_VAR(block);
	return block;
}

inlined void nothing_free(unsigned long block, unsigned int order)
{
	OPTIMIZER_HIDE_VAR(block);
}

inlined void no_stamp(unsigned long block, unsigned int order)
{
}

inlined unsigned long no_check(unsigned long block, unsigned int order)
{
	return 0;
}

/* --- Linux ---------------------------------------------------------------------------------- */

inlined unsigned long linux_alloc(unsigned int order, bool movable)
{
	return (unsigned long)alloc_pages((movable ? GFP_HIGHUSER_MOVABLE : GFP_KERNEL) | __GFP_NOWARN, order);
}

inlined void linux_free(unsigned long block, unsigned int order)
{
	__free_pages((struct page *)block, order);
}

/* --- The library ---------------------------------------------------------------------------- */

inlined unsigned long ours_alloc(unsigned int order, bool movable)
{
	u64 pfn;

	if (fw_alloc(memory, order, movable ? FW_MIGRATETYPE_MOVABLE : FW_MIGRATETYPE_UNMOVABLE, 0, FW_ANY_NODE, &pfn))
		return 0;
	return pfn;
}

inlined void ours_free(unsigned long block, unsigned int order)
{
	/* A refused free is reported: see `corruption` in memory.c. */
	fw_free(memory, block, order);
}

/* --- Contents ------------------------------------------------------------------------------- */

/*
 * Writes the complement of its own address into every word of a block. `check_words` clears the words, so the second
 * check of a block that was handed out twice finds wrong words.
 */
inlined void stamp_words(unsigned long *words, unsigned int order)
{
	unsigned long at, count = (PAGE_SIZE << order) / sizeof(*words);

	for (at = 0; at < count; at++)
		words[at] = ~(unsigned long)(words + at);
}

/* Counts the words that differ, and clears all words. */
inlined unsigned long check_words(unsigned long *words, unsigned int order)
{
	unsigned long at, wrong = 0, count = (PAGE_SIZE << order) / sizeof(*words);

	for (at = 0; at < count; at++) {
		wrong += words[at] != ~(unsigned long)(words + at);
		words[at] = 0;
	}
	return wrong;
}

inlined void linux_stamp(unsigned long block, unsigned int order)
{
	stamp_words(page_address((struct page *)block), order);
}

inlined unsigned long linux_check(unsigned long block, unsigned int order)
{
	return check_words(page_address((struct page *)block), order);
}

inlined void ours_stamp(unsigned long block, unsigned int order)
{
	stamp_words(frame_address(block), order);
}

inlined unsigned long ours_check(unsigned long block, unsigned int order)
{
	return check_words(frame_address(block), order);
}

static const struct side nothing = { nothing_alloc, nothing_free, no_stamp, no_check };
static const struct side linux_counted = { linux_alloc, linux_free, no_stamp, no_check };
static const struct side ours_counted = { ours_alloc, ours_free, no_stamp, no_check };
static const struct side linux_verified = { linux_alloc, linux_free, linux_stamp, linux_check };
static const struct side ours_verified = { ours_alloc, ours_free, ours_stamp, ours_check };

#endif
