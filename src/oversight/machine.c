/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "oversight/machine_priv.h"

enum {
	PROC_MAX = 16 * 1024,
};

double machine_pressure(const char *text)
{
	double avg;

	return sscanf(text, "some avg10=%lf", &avg) == 1 && avg >= 0 ? avg : -1;
}

int64_t machine_memory(const char *text, const char *name)
{
	size_t len = strlen(name);
	long long kb;

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, name, len) && p[len] == ':')
			return sscanf(p + len + 1, "%lld", &kb) == 1 && kb > 0 ? kb * 1024 : 0;
	}
	return 0;
}

/* malloc'd; NULL: this kernel has none. */
static char *read_proc(const char *path)
{
	char *text = NULL;

	err_free(file_read(AT_FDCWD, path, PROC_MAX, &text, NULL));
	return text;
}

static void read_memory(struct machine *m)
{
	autofree char *text = read_proc("/proc/meminfo");

	if (!text)
		return;
	m->memory_total = machine_memory(text, "MemTotal");
	m->memory_available = machine_memory(text, "MemAvailable");
}

void machine_read(const char *dir, struct machine *ret)
{
	static const char *const files[PRESSURE_MAX_] = {
		[PRESSURE_CPU] = "/proc/pressure/cpu",
		[PRESSURE_MEMORY] = "/proc/pressure/memory",
		[PRESSURE_IO] = "/proc/pressure/io",
	};
	struct statvfs fs;

	*ret = (struct machine){ .cpus = sysconf(_SC_NPROCESSORS_ONLN) };
	for (int i = 0; i < PRESSURE_MAX_; i++) {
		autofree char *text = read_proc(files[i]);

		ret->pressure[i] = text ? machine_pressure(text) : -1;
	}
	if (getloadavg(ret->load, 3) != 3)
		memset(ret->load, 0, sizeof(ret->load));
	read_memory(ret);
	if (!statvfs(dir, &fs)) {
		ret->disk_total = (int64_t)(fs.f_blocks * fs.f_frsize);
		ret->disk_available = (int64_t)(fs.f_bavail * fs.f_frsize);
	}
}
