// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Framewright in Linux: the library manages a range of the kernel's memory, and does the same work as the kernel's own
 * page allocator. The work is done when the module is loaded, and a check when it is unloaded. The results are lines
 * in the kernel's log.
 *
 * | file | job |
 * |---|---|
 * | memory | the range of memory, and the functions of struct fw_platform |
 * | side | the allocators that are compared |
 * | work | the work, verified and counted |
 * | huge | counts the huge pages that can be allocated while a few small blocks are in use |
 * | team | a thread on each CPU |
 * | probes | counts calls of kernel functions, by kprobes |
 */
#include <linux/init.h>
#include <linux/module.h>

#include "huge.h"
#include "log.h"
#include "memory.h"
#include "team.h"
#include "work.h"

static bool compare;
module_param(compare, bool, 0444);
MODULE_PARM_DESC(compare, "also count instructions, calls and huge pages, and compare with Linux");

module_param_named(hardening, memory_hardening, charp, 0444);
MODULE_PARM_DESC(hardening, "how the library checks frees: off, checked or tracked");

module_param_named(mib, memory_mib, uint, 0444);
MODULE_PARM_DESC(mib, "the size of the range that the library manages, in MiB");

static int __init framewright_init(void)
{
	int error = memory_begin();

	if (error)
		return error;
	say("begins cpus=%u", team_size());
	work_verify();
	if (compare) {
		work_count();
		work_calls();
		huge_compare();
	}
	return 0;
}

static void __exit framewright_exit(void)
{
	memory_end();
}

module_init(framewright_init);
module_exit(framewright_exit);

MODULE_DESCRIPTION("Framewright compared with the page allocator of Linux");
MODULE_LICENSE("Dual MIT/GPL");
