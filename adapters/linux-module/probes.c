// SPDX-License-Identifier: MIT OR Apache-2.0
#include "probes.h"

#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/string.h>

#include "log.h"

/* The compiler may have given a function a suffix. */
static const char *const names[PROBES][3] = {
	{ "rmqueue_bulk", "rmqueue_bulk.constprop.0", "rmqueue_bulk.isra.0" },
	{ "free_pcppages_bulk", "free_pcppages_bulk.constprop.0", "free_pcppages_bulk.isra.0" },
	{ "free_one_page", "free_one_page.constprop.0", "free_one_page.isra.0" },
};

static struct kprobe probes[PROBES];
static atomic_long_t counts[PROBES];

static int count_call(struct kprobe *probe, struct pt_regs *registers)
{
	atomic_long_inc(&counts[probe - probes]);
	return 0;
}

static int probe_begin(unsigned int which)
{
	int error = -ENOENT;
	unsigned int name;

	for (name = 0; error && name < ARRAY_SIZE(names[which]); name++) {
		memset(&probes[which], 0, sizeof(probes[which]));
		probes[which].symbol_name = names[which][name];
		probes[which].pre_handler = count_call;
		error = register_kprobe(&probes[which]);
	}
	if (error)
		fail("no probe at %s: %d", names[which][0], error);
	return error;
}

int probes_begin(void)
{
	unsigned int which;

	for (which = 0; which < PROBES; which++) {
		int error = probe_begin(which);

		if (error) {
			while (which--)
				unregister_kprobe(&probes[which]);
			return error;
		}
	}
	return 0;
}

void probes_end(void)
{
	unsigned int which;

	for (which = 0; which < PROBES; which++)
		unregister_kprobe(&probes[which]);
}

void probes_reset(void)
{
	unsigned int which;

	for (which = 0; which < PROBES; which++)
		atomic_long_set(&counts[which], 0);
}

void probes_read(unsigned long calls[PROBES])
{
	unsigned int which;

	for (which = 0; which < PROBES; which++)
		calls[which] = atomic_long_read(&counts[which]);
}
