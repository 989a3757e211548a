// SPDX-License-Identifier: MIT OR Apache-2.0
#include "work.h"

#include <linux/atomic.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "log.h"
#include "probes.h"
#include "side.h"
#include "team.h"

/* The most blocks that a CPU holds. */
#define MOST_BLOCKS 8192

/* The work of each CPU. */
struct work {
	const char *name;
	/* The shape: an index of `jobs`. */
	unsigned int shape;
	unsigned int order;
	/* The number of blocks held at once, and the number of rounds (for churn: of steps). */
	unsigned int blocks, rounds;
	/* Whether the blocks are those of user pages. */
	bool movable;
};

enum { PAIRS, BURSTS, CROSS, CHURN, SHAPES };

static const struct work works[] = {
	{ "pairs_order_0", PAIRS, 0, 1, 8192, false },
	{ "pairs_order_0_movable", PAIRS, 0, 1, 8192, true },
	{ "pairs_order_1", PAIRS, 1, 1, 8192, false },
	{ "pairs_order_2", PAIRS, 2, 1, 8192, false },
	{ "pairs_order_3", PAIRS, 3, 1, 8192, false },
	{ "pairs_order_9", PAIRS, 9, 1, 2048, false },
	{ "bursts_of_1024_order_0", BURSTS, 0, 1024, 8, false },
	{ "bursts_of_1024_order_0_movable", BURSTS, 0, 1024, 8, true },
	{ "bursts_of_8192_order_0", BURSTS, 0, 8192, 2, false },
	{ "bursts_of_256_order_1", BURSTS, 1, 256, 32, false },
	{ "bursts_of_256_order_2", BURSTS, 2, 256, 32, false },
	{ "bursts_of_256_order_3", BURSTS, 3, 256, 32, false },
	{ "bursts_of_8_order_9", BURSTS, 9, 8, 128, false },
	{ "cross_256_order_0", CROSS, 0, 256, 32, false },
	{ "cross_256_order_0_movable", CROSS, 0, 256, 32, true },
	{ "cross_64_order_3", CROSS, 3, 64, 64, false },
	{ "cross_8_order_9", CROSS, 9, 8, 64, false },
	{ "churn_orders_0_to_3", CHURN, 0, 1024, 32768, false },
};

/* The blocks that a CPU holds. */
struct held {
	unsigned long block[MOST_BLOCKS];
	u8 order[MOST_BLOCKS];
};

struct run {
	const struct work *work;
	struct held *held;
	atomic_long_t pairs, failed, wrong_words;
	/* Allocations and frees of the library that held one of its locks. */
	atomic_long_t refills, bulk_frees;
};

/* --- One block ------------------------------------------------------------------------------ */

inlined unsigned long take(const struct side *side, struct run *run, unsigned int order)
{
	unsigned long block = side->alloc(order, run->work->movable);

	if (unlikely(!block))
		atomic_long_inc(&run->failed);
	else
		side->stamp(block, order);
	return block;
}

inlined void give(const struct side *side, struct run *run, unsigned long block, unsigned int order)
{
	unsigned long wrong;

	if (unlikely(!block))
		return;
	wrong = side->check(block, order);
	if (unlikely(wrong))
		atomic_long_add(wrong, &run->wrong_words);
	side->free(block, order);
}

/* --- The shapes ----------------------------------------------------------------------------- */

/* Allocates and frees one block at a time. */
inlined void pairs(const struct side *side, struct run *run, unsigned int member)
{
	unsigned int round, order = run->work->order;

	for (round = 0; round < run->work->rounds; round++) {
		give(side, run, take(side, run, order), order);
		take_turns(round);
	}
	atomic_long_add(round, &run->pairs);
}

/* Allocates many blocks, then frees them in the same order. */
inlined void bursts(const struct side *side, struct run *run, unsigned int member)
{
	unsigned long *held = run->held[member].block;
	unsigned int round, at, blocks = run->work->blocks, order = run->work->order;

	for (round = 0; round < run->work->rounds; round++) {
		for (at = 0; at < blocks; at++) {
			held[at] = take(side, run, order);
			take_turns(at);
		}
		for (at = 0; at < blocks; at++) {
			give(side, run, held[at], order);
			take_turns(at);
		}
	}
	atomic_long_add(round * blocks, &run->pairs);
}

/* Each CPU frees the blocks that another CPU has allocated. */
inlined void cross(const struct side *side, struct run *run, unsigned int member)
{
	unsigned long *mine = run->held[member].block;
	unsigned long *others = run->held[(member + 1) % team_size()].block;
	unsigned int round, at, blocks = run->work->blocks, order = run->work->order;

	for (round = 0; round < run->work->rounds; round++) {
		for (at = 0; at < blocks; at++) {
			mine[at] = take(side, run, order);
			take_turns(at);
		}
		team_meet();
		for (at = 0; at < blocks; at++) {
			give(side, run, others[at], order);
			take_turns(at);
		}
		team_meet();
	}
	atomic_long_add(round * blocks, &run->pairs);
}

/* In each step, frees the block in a random slot, or fills the slot if it is empty. Half of the blocks have order 0. */
inlined void churn(const struct side *side, struct run *run, unsigned int member)
{
	static const u8 orders[8] = { 0, 0, 0, 0, 1, 1, 2, 3 };
	struct held *hold = &run->held[member];
	unsigned int step, at, count = 0;
	u32 random = 0x9e3779b9 + member;

	memset(hold->block, 0, sizeof(hold->block));
	for (step = 0; step < run->work->rounds; step++) {
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		at = random % run->work->blocks;
		if (hold->block[at]) {
			give(side, run, hold->block[at], hold->order[at]);
			hold->block[at] = 0;
		} else {
			hold->order[at] = orders[random >> 29];
			hold->block[at] = take(side, run, hold->order[at]);
			count++;
		}
		take_turns(step);
	}
	for (at = 0; at < run->work->blocks; at++)
		give(side, run, hold->block[at], hold->order[at]);
	atomic_long_add(count, &run->pairs);
}

/* --- The sides ------------------------------------------------------------------------------ */

/* Allocations and frees of the library, counted if they took a lock. Not used where instructions are counted. */
static struct run *watched;

inlined unsigned long watched_alloc(unsigned int order, bool movable)
{
	unsigned long before = raw_cpu_read(holds);
	unsigned long block = ours_alloc(order, movable);

	if (raw_cpu_read(holds) != before)
		atomic_long_inc(&watched->refills);
	return block;
}

inlined void watched_free(unsigned long block, unsigned int order)
{
	unsigned long before = raw_cpu_read(holds);

	ours_free(block, order);
	if (raw_cpu_read(holds) != before)
		atomic_long_inc(&watched->bulk_frees);
}

static const struct side ours_watched = { watched_alloc, watched_free, no_stamp, no_check };

/* The jobs of a side, one for each shape. */
#define JOBS(side)                                                                         \
	static void side##_pairs(unsigned int member, void *run) { pairs(&side, run, member); }   \
	static void side##_bursts(unsigned int member, void *run) { bursts(&side, run, member); } \
	static void side##_cross(unsigned int member, void *run) { cross(&side, run, member); }   \
	static void side##_churn(unsigned int member, void *run) { churn(&side, run, member); }   \
	static const job_fn side##_jobs[SHAPES] = { side##_pairs, side##_bursts, side##_cross, side##_churn }

JOBS(nothing);
JOBS(linux_counted);
JOBS(ours_counted);
JOBS(ours_watched);
JOBS(linux_verified);
JOBS(ours_verified);

/* --- Runs ----------------------------------------------------------------------------------- */

/* Does a kind of work on all CPUs, and logs failures. Returns its time in ticks: with -icount, its instructions. */
static u64 run_work(const job_fn jobs[SHAPES], const struct work *work, struct run *run, const char *side)
{
	struct held *held = run->held;
	unsigned long failed, wrong;
	u64 ticks;

	memset(run, 0, sizeof(*run));
	run->work = work;
	run->held = held;
	watched = run;
	ticks = team_run(jobs[work->shape], run);
	failed = atomic_long_read(&run->failed);
	wrong = atomic_long_read(&run->wrong_words);
	if (!ticks || failed || wrong)
		fail("%s by %s: %lu allocations failed, %lu wrong words", work->name, side, failed, wrong);
	return ticks;
}

/* Calls `with` for each kind of work that this number of CPUs can do. */
static void for_each_work(void (*with)(const struct work *work, struct run *run))
{
	struct run run = { .held = vzalloc(array_size(team_size(), sizeof(struct held))) };
	unsigned int at;

	if (!run.held) {
		fail("no memory for the blocks that are held");
		return;
	}
	for (at = 0; at < ARRAY_SIZE(works); at++)
		if (works[at].shape != CROSS || team_size() > 1)
			with(&works[at], &run);
	vfree(run.held);
}

static void verify(const struct work *work, struct run *run)
{
	struct work less = *work;
	unsigned long by_linux;

	/* Each word is written and read, which takes longer than the work. */
	less.blocks = min(work->blocks, 1024U);
	less.rounds = max(work->rounds >> (work->order == 9 ? 7 : 5), 1U);
	run_work(linux_verified_jobs, &less, run, "Linux");
	by_linux = atomic_long_read(&run->pairs);
	run_work(ours_verified_jobs, &less, run, "the library");
	say("verified work=%s linux=%lu ours=%lu", work->name, by_linux, atomic_long_read(&run->pairs));
}

static void count(const struct work *work, struct run *run)
{
	static const job_fn *const sides[] = { nothing_jobs, linux_counted_jobs, ours_counted_jobs };
	static const char *const names[] = { "nothing", "Linux", "the library" };
	u64 ticks[ARRAY_SIZE(sides)];
	unsigned int side;

	for (side = 0; side < ARRAY_SIZE(sides); side++) {
		/* The first run fills lists and caches. */
		run_work(sides[side], work, run, names[side]);
		ticks[side] = run_work(sides[side], work, run, names[side]);
	}
	say("count work=%s pairs=%lu nothing=%llu linux=%llu ours=%llu", work->name, atomic_long_read(&run->pairs),
	    ticks[0], ticks[1], ticks[2]);
}

static void calls(const struct work *work, struct run *run)
{
	unsigned long by_linux[PROBES];

	probes_reset();
	run_work(linux_counted_jobs, work, run, "Linux");
	probes_read(by_linux);
	run_work(ours_watched_jobs, work, run, "the library");
	say("calls work=%s pairs=%lu rmqueue_bulk=%lu free_pcppages_bulk=%lu free_one_page=%lu refills=%lu bulk_frees=%lu",
	    work->name, atomic_long_read(&run->pairs), by_linux[0], by_linux[1], by_linux[2],
	    atomic_long_read(&run->refills), atomic_long_read(&run->bulk_frees));
}

void work_verify(void)
{
	for_each_work(verify);
}

void work_count(void)
{
	for_each_work(count);
}

void work_calls(void)
{
	if (probes_begin())
		return;
	for_each_work(calls);
	probes_end();
}
