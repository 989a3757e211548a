// SPDX-License-Identifier: MIT OR Apache-2.0
#include "team.h"

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/timex.h>

#include "log.h"

static struct {
	job_fn job;
	void *data;
	atomic_t waiting;
	atomic_t meeting;
	atomic_t running;
	u64 begun, ended;
	struct completion done;
} team;

unsigned int team_size(void)
{
	return num_online_cpus();
}

/* Waits until all CPUs have called this. The last one stores the time: no CPU has continued before. */
static void meet_at(u64 *time)
{
	int meeting = atomic_read(&team.meeting);

	if (atomic_inc_return(&team.waiting) == team_size()) {
		*time = get_cycles();
		atomic_set(&team.waiting, 0);
		atomic_inc_return(&team.meeting);
		return;
	}
	while (atomic_read_acquire(&team.meeting) == meeting) {
		cpu_relax();
		cond_resched();
	}
}

void team_meet(void)
{
	u64 unused;

	meet_at(&unused);
}

static int work(void *member)
{
	meet_at(&team.begun);
	team.job((unsigned long)member, team.data);
	meet_at(&team.ended);
	if (atomic_dec_and_test(&team.running))
		complete(&team.done);
	/* The thread ends in kthread_stop, so that no thread is in the code of a module that is unloaded. */
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void stop(struct task_struct *tasks[], unsigned int count)
{
	while (count)
		kthread_stop(tasks[--count]);
}

u64 team_run(job_fn job, void *data)
{
	struct task_struct *tasks[MOST_CPUS];
	unsigned int cpu, count = 0, woken;

	if (team_size() > MOST_CPUS) {
		fail("there are more than %u CPUs", MOST_CPUS);
		return 0;
	}
	team.job = job;
	team.data = data;
	atomic_set(&team.running, team_size());
	init_completion(&team.done);
	for_each_online_cpu(cpu) {
		struct task_struct *task = kthread_create(work, (void *)(unsigned long)count, "framewright/%u", cpu);

		if (IS_ERR(task)) {
			fail("no thread for CPU %u", cpu);
			stop(tasks, count);
			return 0;
		}
		kthread_bind(task, cpu);
		tasks[count++] = task;
	}
	for (woken = 0; woken < count; woken++)
		wake_up_process(tasks[woken]);
	wait_for_completion(&team.done);
	stop(tasks, count);
	return team.ended - team.begun;
}
