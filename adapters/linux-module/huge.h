/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Huge pages that are left when a few small blocks stay allocated. */
#ifndef HUGE_H
#define HUGE_H

/* Compares both sides, with the same free memory. */
void huge_compare(void);

#endif
