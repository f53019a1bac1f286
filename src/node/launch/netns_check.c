/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/str.h"
#include "node/launch/launch_priv.h"

/*
 * Whether a network that a sandbox had is as it was made, so that another may have it.
 *
 * A sandbox owns no network namespace: its links, addresses, routes, settings and filter cannot be
 * changed from inside. What it can leave behind are sockets, and what packets leave: connections
 * that wait for their end, fragments, metrics, neighbours. So there must be no socket, wherever its
 * descriptor may be by now, and no counter of packets may have moved, neither those of the links
 * nor those of the protocols, which also count what the filter drops. Only the flow labels of IPv6
 * outlive their sockets without a packet, and have a list of their own.
 */
enum {
	TEXT_MAX = 64 * 1024, /* of one file */
};

/* In front of the counters of a line: Forwarding and DefaultTTL; RtoAlgorithm, RtoMin, RtoMax and
 * MaxConn. */
static unsigned count_settings(const char *line)
{
	return str_starts(line, "Ip: ") ? 2 : str_starts(line, "Tcp: ") ? 4 : 0;
}

static const char *line_not_zero(char *line)
{
	unsigned n_settings = count_settings(line);
	char *rest = NULL;

	for (char *t = strtok_r(line, " \t", &rest); t; t = strtok_r(NULL, " \t", &rest)) {
		const char *colon = strchr(t, ':');

		if (colon && colon[1])
			return t; /* a name with a number right behind it */
		if (!isdigit((unsigned char)*t) && *t != '-')
			continue;
		if (n_settings)
			n_settings--;
		else if (!str_eq(t, "0"))
			return t;
	}
	return NULL;
}

/* The first counter that has moved. */
static const char *not_zero(char *text)
{
	const char *found = NULL;
	char *rest = NULL;

	for (char *l = strtok_r(text, "\n", &rest); l && !found; l = strtok_r(NULL, "\n", &rest))
		found = line_not_zero(l);
	return found;
}

/* The first line counts the sockets of this namespace, of all families; in others the numbers of
 * the whole machine are mixed in. */
static const char *sockets_left(char *text)
{
	if (str_starts(text, "sockets: used 0\n") && strstr(text, " tw 0 "))
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static const char *labels_left(char *text)
{
	char *end = strchr(text, '\n');

	return !end || end[1] ? "flow labels are left" : NULL;
}

/* Those that are cheap to read, and fail most often, come first. */
static const struct {
	const char *name;
	const char *(*touched)(char *text); /* what tells so, or NULL; may change the text */
	bool ipv6;                          /* a kernel without IPv6 does not have it */
} files[] = {
	{ "sockstat", sockets_left, false },
	{ "dev", not_zero, false },
	{ "ip6_flowlabel", labels_left, true },
	{ "snmp", not_zero, false },
	{ "snmp6", not_zero, true },
	{ "netstat", not_zero, false },
};

/* *ret_len 0: there is no such file. */
static struct err *read_text(int dir, const char *name, char *text, size_t *ret_len)
{
	autoclose fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0 && errno != ENOENT)
		return err_sys(errno, "open net/%s", name);
	while (fd >= 0 && n > 0) {
		n = read(fd, text + len, TEXT_MAX - len - 1);
		if (n < 0)
			return err_sys(errno, "read net/%s", name);
		len += (size_t)n;
	}
	if (len == TEXT_MAX - 1)
		return err_new(ERR_TOO_LARGE, "net/%s has %zu bytes or more", name, len);
	text[len] = '\0';
	*ret_len = len;
	return NULL;
}

static struct err *check_inside(const struct launcher *l)
{
	autoclose dir = openat(l->proc, "thread-self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	static char text[TEXT_MAX];

	if (dir < 0)
		return err_sys(errno, "open the network's directory in proc");
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		size_t len = 0;
		struct err *e = read_text(dir, files[i].name, text, &len);
		const char *found;

		if (e)
			return e;
		if (!len && files[i].ipv6)
			continue;
		found = len ? files[i].touched(text) : "it is empty";
		if (found)
			return err_new(ERR_CONFLICT, "net/%s: %s", files[i].name, found);
	}
	return NULL;
}

struct err *netns_check(struct launcher *l, int ns)
{
	struct err *e = netns_renew_proc(l);

	if (e)
		return e;
	if (setns(ns, CLONE_NEWNET) < 0)
		return err_sys(errno, "enter a network namespace");
	e = check_inside(l);
	if (setns(l->host_ns, CLONE_NEWNET) < 0)
		_exit(1); /* never serve from the wrong network */
	return e ? err_wrap(e, "look at a network") : NULL;
}
