/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts calls of functions of the kernel. */
#ifndef PROBES_H
#define PROBES_H

#define PROBES 3

/* Begins to count. Returns 0 or a negative error. */
int probes_begin(void);
void probes_end(void);
/* The calls since the last `probes_reset`, of rmqueue_bulk, free_pcppages_bulk and free_one_page. */
void probes_reset(void);
void probes_read(unsigned long calls[PROBES]);

#endif
