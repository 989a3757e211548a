/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts the huge pages that can be allocated while a few small blocks are in use. */
#ifndef HUGE_H
#define HUGE_H

/* Compares Linux's allocator with the library, each with the same amount of free memory. */
void huge_compare(void);

#endif
