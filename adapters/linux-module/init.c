// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The init, and only program, of a Linux guest that loads the module. It is in an initramfs with /framewright.ko. The
 * kernel's command line has loads=N and options=TEXT: the module is loaded and unloaded N times, the last time with these
 * options, in which a comma stands for a blank. After each unloading, the kernel's log is written
 * to the console. At the end the machine is stopped by QEMU's isa-debug-exit.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Actions of klogctl: SYSLOG_ACTION_READ_ALL and SYSLOG_ACTION_CLEAR. */
enum { READ_ALL = 3, CLEAR = 5 };
enum { EXIT_PORT = 0xf4, PASSED = 0x10, FAILED = 0x11 };

static char text[1 << 20];

static void end(int code)
{
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	if (ioperm(EXIT_PORT, 4, 1) == 0)
		outl(code, EXIT_PORT);
	for (;;)
		pause();
}

static void expect(int done, const char *what)
{
	if (done)
		return;
	printf("error: ");
	fflush(stdout);
	perror(what);
	end(FAILED);
}

/*
 * Starts the other CPUs, which the kernel has not started (maxcpus=1). Under -icount, QEMU 7.2 never runs a second CPU
 * while the first one neither waits nor executes `pause`, and the kernel does neither while it starts a CPU. So another
 * process executes `pause` meanwhile.
 */
static void start_cpus(void)
{
	char path[64];
	int cpu, file;
	pid_t other = fork();

	expect(other >= 0, "fork");
	for (; other == 0; __builtin_ia32_pause())
		for (volatile int at = 0; at < 2000; at++)
			;
	for (cpu = 1;; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		file = open(path, O_WRONLY);
		if (file < 0)
			break;
		expect(write(file, "1", 1) == 1, path);
		close(file);
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* Writes the log to the console, and clears it. */
static void write_log(void)
{
	int length = klogctl(READ_ALL, text, sizeof(text) - 1);

	expect(length >= 0, "klogctl");
	text[length] = 0;
	fputs(text, stdout);
	expect(klogctl(CLEAR, NULL, 0) >= 0, "klogctl");
}

/* Free memory of the kernel, in KiB. */
static long free_kib(void)
{
	char line[128];
	long free = -1;
	FILE *file = fopen("/proc/meminfo", "r");

	expect(file != NULL, "/proc/meminfo");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemFree: %ld", &free) == 1)
			break;
	fclose(file);
	return free;
}

static void load(const char *options)
{
	int file = open("/framewright.ko", O_RDONLY);

	expect(file >= 0, "/framewright.ko");
	if (syscall(SYS_finit_module, file, options, 0) != 0) {
		write_log();
		expect(0, "insmod");
	}
	close(file);
	expect(syscall(SYS_delete_module, "framewright", O_NONBLOCK) == 0, "rmmod");
	write_log();
}

int main(void)
{
	const char *loads = getenv("loads");
	char *options = getenv("options");
	int at, count = loads ? atoi(loads) : 1;
	char *comma;

	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	expect(mount("proc", "/proc", "proc", 0, NULL) == 0, "/proc");
	expect(mount("sysfs", "/sys", "sysfs", 0, NULL) == 0, "/sys");
	while (options && (comma = strchr(options, ',')))
		*comma = ' ';
	start_cpus();
	expect(klogctl(CLEAR, NULL, 0) >= 0, "klogctl");
	for (at = 1; at <= count; at++) {
		printf("load %d free_kib=%ld\n", at, free_kib());
		load(at < count ? "hardening=checked" : options ? options : "");
	}
	printf("loads=%d free_kib=%ld\n", count, free_kib());
	end(PASSED);
}
