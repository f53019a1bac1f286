/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/load.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* "cpu  user nice system idle iowait irq softirq steal ...", in ticks */
enum {
	CPU_IDLE = 3,
	CPU_IOWAIT = 4,
	CPU_STEAL = 7,
};

static const char *number(const char *s, int64_t *ret)
{
	int64_t v = 0;

	while (*s == ' ')
		s++;
	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (*s - '0');
	*ret = v;
	return s;
}

static int64_t busy_usec(const char *stat)
{
	int64_t sum = 0, v;

	if (strncmp(stat, "cpu ", 4) != 0)
		return 0;
	stat += 4;
	for (int i = 0; i <= CPU_STEAL; i++) {
		stat = number(stat, &v);
		if (i != CPU_IDLE && i != CPU_IOWAIT)
			sum += v;
	}
	return sum * (1000000 / sysconf(_SC_CLK_TCK));
}

static int64_t mem_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	int64_t kib = 0;

	if (at)
		(void)number(at + strlen(name), &kib);
	return kib * 1024;
}

void host_load(struct host_load *ret)
{
	autofree char *stat = NULL, *mem = NULL;

	*ret = (struct host_load){ 0 };
	err_free(file_read(AT_FDCWD, "/proc/stat", 1 << 20, &stat, NULL));
	err_free(file_read(AT_FDCWD, "/proc/meminfo", 1 << 16, &mem, NULL));
	if (stat)
		ret->cpu_usec = busy_usec(stat);
	if (mem)
		ret->memory = mem_bytes(mem, "MemTotal:") - mem_bytes(mem, "MemAvailable:");
}

bool host_has_swap(void)
{
	autofree char *text = NULL;
	const char *second;

	err_free(file_read(AT_FDCWD, "/proc/swaps", 65536, &text, NULL));
	second = text ? strchr(text, '\n') : NULL;
	return second && second[1];
}

static bool link_counter(const char *link, const char *counter, int64_t *ret)
{
	autofree char *path = xasprintf("/sys/class/net/%s/statistics/%s", link, counter);
	autofree char *text = NULL;

	err_free(file_read(AT_FDCWD, path, 64, &text, NULL));
	if (text)
		(void)number(text, ret);
	return text;
}

bool host_link_traffic(const char *name, int64_t *ret_received, int64_t *ret_sent)
{
	int64_t received, sent;

	if (!link_counter(name, "rx_bytes", &received) || !link_counter(name, "tx_bytes", &sent))
		return false;
	*ret_received = received;
	*ret_sent = sent;
	return true;
}
