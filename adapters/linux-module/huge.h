/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts the huge pages that can be allocated while a few small blocks are in use. */
#ifndef HUGE_H
#define HUGE_H

/* Compares both sides, with the same free memory. */
void huge_compare(void);

#endif
