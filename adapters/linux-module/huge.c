// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * All CPUs together fill six tenths of the memory with blocks of random orders 0 to 3, some of which are freed
 * meanwhile. Then all blocks but about one in sixteen are freed. Huge pages are counted by allocating them until none is
 * left: once before this work, and once while the remaining blocks are in use. At the start, Linux has as many free huge
 * pages as the range of the library, because the module allocates the rest of Linux's memory.
 */
#include "huge.h"

#include <linux/vmalloc.h>

#include "log.h"
#include "side.h"
#include "team.h"

#define HUGE_ORDER 9
#define HUGE_PAGES (RANGE_FRAMES >> HUGE_ORDER)
#define MOST_HUGE_PAGES 4096
#define MOST_BLOCKS 65536

/* The blocks of a CPU. */
struct scattered {
	unsigned long *block;
	u8 *order;
	unsigned int count;
};

struct scatter {
	struct scattered of[MOST_CPUS];
	/* Frames that each CPU fills, which is also the most blocks that it can hold. */
	unsigned int frames;
	unsigned long failed;
};

inlined u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state >> 8;
}

/* Frees the block at a position, and moves the last block there. Returns the number of its frames. */
inlined unsigned int free_at(const struct side *side, struct scattered *mine, unsigned int at)
{
	unsigned int order = mine->order[at];

	side->free(mine->block[at], order);
	mine->count--;
	mine->block[at] = mine->block[mine->count];
	mine->order[at] = mine->order[mine->count];
	return 1U << order;
}

inlined void scatter(const struct side *side, struct scatter *all, unsigned int member)
{
	static const u8 orders[8] = { 0, 0, 0, 0, 1, 1, 2, 3 };
	struct scattered *mine = &all->of[member];
	unsigned int at, frames = 0, step = 0;
	u32 state = 0x9e3779b9 + member;

	while (frames < all->frames && mine->count < all->frames) {
		if (mine->count && next_random(&state) % 4 == 0) {
			frames -= free_at(side, mine, next_random(&state) % mine->count);
		} else {
			unsigned int order = orders[next_random(&state) % 8];

			mine->order[mine->count] = order;
			mine->block[mine->count] = side->alloc(order, false);
			if (!mine->block[mine->count]) {
				WRITE_ONCE(all->failed, 1);
				break;
			}
			mine->count++;
			frames += 1U << order;
		}
		take_turns(step++);
	}
	for (at = mine->count; at--;) {
		if (next_random(&state) % 16)
			free_at(side, mine, at);
		take_turns(at);
	}
}

static void linux_scatter(unsigned int member, void *all)
{
	scatter(&linux_counted, all, member);
}

static void ours_scatter(unsigned int member, void *all)
{
	scatter(&ours_counted, all, member);
}

/* Fails when no huge page is left, without a call of the OOM killer. */
static unsigned long linux_huge(unsigned int order)
{
	return (unsigned long)alloc_pages(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN, order);
}

static unsigned long ours_huge(unsigned int order)
{
	return ours_alloc(order, false);
}

static void linux_give(unsigned long block, unsigned int order)
{
	linux_free(block, order);
}

static void ours_give(unsigned long block, unsigned int order)
{
	ours_free(block, order);
}

/* An allocator as function pointers. Here, the cost of indirect calls does not matter. */
struct side_ops {
	const char *name;
	unsigned long (*huge)(unsigned int order);
	void (*free)(unsigned long block, unsigned int order);
	job_fn scatter;
};

/* Allocates huge pages until none is left. Returns their number. */
static unsigned int take_all(unsigned long (*alloc)(unsigned int order), unsigned long *blocks)
{
	unsigned int count = 0;

	while (count < MOST_HUGE_PAGES) {
		blocks[count] = alloc(HUGE_ORDER);
		if (!blocks[count])
			break;
		count++;
	}
	return count;
}

static unsigned int count_huge(const struct side_ops *side, unsigned long *blocks)
{
	unsigned int at, count = take_all(side->huge, blocks);

	for (at = 0; at < count; at++)
		side->free(blocks[at], HUGE_ORDER);
	return count;
}

static void compare(const struct side_ops *side, struct scatter *all, unsigned long *blocks)
{
	unsigned int before, after, member, kept = 0;

	all->failed = 0;
	before = count_huge(side, blocks);
	if (!team_run(side->scatter, all) || all->failed)
		fail("huge pages: %s has not enough memory", side->name);
	for (member = 0; member < team_size(); member++)
		kept += all->of[member].count;
	after = count_huge(side, blocks);
	for (member = 0; member < team_size(); member++) {
		struct scattered *of = &all->of[member];

		while (of->count) {
			of->count--;
			side->free(of->block[of->count], of->order[of->count]);
		}
	}
	say("huge side=%s before=%u left=%u kept_blocks=%u", side->name, before, after, kept);
}

/* The free memory of Linux, except as many huge pages as the range has. The module holds it during the comparison. */
struct ballast {
	unsigned long block[MOST_BLOCKS];
	u8 order[MOST_BLOCKS];
	unsigned int count;
};

/*
 * Takes the free blocks of Linux, from order 9 down to order 0. The small ones are taken, too, because they
 * would serve requests of the work, which would then split fewer huge pages.
 */
static void take_ballast(struct ballast *held)
{
	unsigned int freed, order = HUGE_ORDER + 1;

	while (order--) {
		while (held->count < MOST_BLOCKS) {
			struct page *page = alloc_pages(GFP_NOWAIT | __GFP_NOWARN, order);

			if (!page)
				break;
			held->block[held->count] = (unsigned long)page;
			held->order[held->count++] = order;
		}
	}
	for (freed = 0; freed < HUGE_PAGES && held->order[freed] == HUGE_ORDER; freed++) {
		linux_give(held->block[freed], HUGE_ORDER);
		held->block[freed] = 0;
	}
	if (freed < HUGE_PAGES)
		fail("huge pages: Linux has only %u", freed);
}

static void give_ballast(struct ballast *held)
{
	while (held->count--)
		if (held->block[held->count])
			linux_give(held->block[held->count], held->order[held->count]);
}

static const struct side_ops linux_side = { "linux", linux_huge, linux_give, linux_scatter };
static const struct side_ops our_side = { "ours", ours_huge, ours_give, ours_scatter };

void huge_compare(void)
{
	struct scatter *all = vzalloc(sizeof(*all));
	struct ballast *ballast = vzalloc(sizeof(*ballast));
	unsigned long *blocks = vmalloc(MOST_HUGE_PAGES * sizeof(*blocks));
	unsigned int member;
	bool complete = all && ballast && blocks;

	if (complete)
		all->frames = RANGE_FRAMES * 6 / 10 / team_size();
	for (member = 0; complete && member < team_size(); member++) {
		struct scattered *of = &all->of[member];

		of->block = vmalloc(all->frames * sizeof(*of->block));
		of->order = vmalloc(all->frames);
		complete = of->block && of->order;
	}
	if (complete) {
		compare(&our_side, all, blocks);
		take_ballast(ballast);
		compare(&linux_side, all, blocks);
		give_ballast(ballast);
	} else {
		fail("huge pages: no memory");
	}
	for (member = 0; all && member < team_size(); member++) {
		vfree(all->of[member].block);
		vfree(all->of[member].order);
	}
	vfree(blocks);
	vfree(ballast);
	vfree(all);
}
