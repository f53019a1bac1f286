/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/lease_file.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/network/limits.h"

/*
 *   limited UID
 *   free UID
 *   PLACE UID ADDRESS UNTIL HOST
 */
enum {
	WORDS = 5,
	TEXT_MAX = 16 * 1024 * 1024,
};
static const char name[] = "leases";
static const char *const heads[] = { "free ", "limited " }; /* by whether it is limited */

struct writing {
	unsigned place;
	const char *uid;
	struct buf *out;
};

static void add_line(void *arg, const char *host, const struct ip *ip, usec until)
{
	const struct writing *w = arg;
	char text[IP_TEXT_MAX];

	ip_text(ip, text);
	buf_printf(w->out, "%u %s %s %lld %s\n", w->place, w->uid, text, (long long)until, host);
}

void lease_lines_add(unsigned place, const char *uid, const struct limits *l, struct buf *out)
{
	struct writing w = { place, uid, out };

	limits_each(l, add_line, &w);
}

void lease_lines_add_pod(const char *uid, bool limited, struct buf *out)
{
	buf_printf(out, "%s%s\n", heads[limited], uid);
}

struct map *lease_lines_pods(const char *text, bool limited)
{
	autofree char *copy = xstrdup(text);
	struct map *uids = map_new(NULL);
	char *rest = NULL;

	for (char *at = strtok_r(copy, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest))
		if (str_starts(at, heads[limited]))
			map_put(uids, at + strlen(heads[limited]), uids);
	return uids;
}

static bool read_number(const char *text, int64_t max, int64_t *ret)
{
	struct err *e = parse_int(text, 0, max, ret);
	bool good = !e;

	err_free(e);
	return good;
}

static bool read_line(char *line, struct lease_line *ret)
{
	char *words[WORDS], *rest = NULL;
	int64_t place, until;
	size_t n = 0;

	for (char *w = strtok_r(line, " ", &rest); w && n < WORDS; w = strtok_r(NULL, " ", &rest))
		words[n++] = w;
	if (n < WORDS || !read_number(words[0], POOL_SIZE - 1, &place) ||
	    !ip_parse(words[2], &ret->ip) || !read_number(words[3], INT64_MAX, &until))
		return false;
	ret->place = (unsigned)place;
	ret->uid = words[1];
	ret->until = until;
	ret->host = words[4];
	return true;
}

void lease_lines_read(const char *text, void (*fn)(void *arg, const struct lease_line *line),
		      void *arg)
{
	autofree char *copy = xstrdup(text);
	struct lease_line line;
	char *rest = NULL;

	for (char *at = strtok_r(copy, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest))
		if (read_line(at, &line))
			fn(arg, &line);
}

struct err *lease_file_write(int run_fd, struct buf *text)
{
	return file_replace(run_fd, name, buf_str(text), text->len);
}

void lease_file_remove(int run_fd)
{
	(void)unlinkat(run_fd, name, 0); /* if it stays, some reach less than they could */
}

struct err *lease_file_read(int run_fd, char **ret)
{
	*ret = NULL;
	if (!file_exists(run_fd, name))
		return NULL;
	return file_read(run_fd, name, TEXT_MAX, ret, NULL);
}
