/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The work, which both allocators do in the same way: Linux's and ours, each a `struct side`. */
#ifndef WORK_H
#define WORK_H

/* Runs every kind of work on both sides with all words of all blocks verified. */
void work_verify(void);
/* Counts the instructions of each kind of work. */
void work_count(void);
/* Counts calls of the kernel's functions under the zone lock, and the library's calls that take a lock. */
void work_calls(void);

#endif
