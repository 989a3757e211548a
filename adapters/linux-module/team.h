/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs the same job on every CPU at once, and measures it. */
#ifndef TEAM_H
#define TEAM_H

#include <asm/processor.h>
#include <linux/types.h>

#define MOST_CPUS 16U

/* The part of a job that CPU number `member` does. */
typedef void (*job_fn)(unsigned int member, void *data);

/* The number of CPUs that take part: all that are online. */
unsigned int team_size(void);
/* Runs a job on every CPU, and returns the ticks of the time stamp counter that it took, or 0 on an error. */
u64 team_run(job_fn job, void *data);
/* Waits until every CPU has called this. To be called by jobs. */
void team_meet(void);

/*
 * Lets the other CPUs run. QEMU switches CPUs under -icount only at an instruction like this one, and when a timer
 * fires.
 */
static __always_inline void take_turns(unsigned int step)
{
	if (step % 16 == 0)
		cpu_relax();
}

#endif
