/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lines in the kernel's log that .ci/linux-module reads. */
#ifndef LOG_H
#define LOG_H

#include <linux/kernel.h>
#include <linux/printk.h>

#define say(format, ...) pr_info("framewright: " format "\n", ##__VA_ARGS__)
/* Logs an error. .ci/linux-module fails if the log contains one. */
#define fail(format, ...) pr_info("framewright: error: " format "\n", ##__VA_ARGS__)

#endif
