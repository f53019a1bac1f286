/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server costs, as far as this machine and /metrics tell: CPU time of its loop, which is
 * its main thread, memory, and the writes it made.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	PROC_MAX = 16 << 20
};

#define REFUSED "refused " /* before the key of a write that was not made */

/* The whole of a file in /proc, or NULL. */
static char *proc_read(const char *fmt, ...) printf_like(1, 2);
static char *proc_read(const char *fmt, ...)
{
	char path[128];
	char *text = NULL;
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	err_free(file_read(AT_FDCWD, path, PROC_MAX, &text, &len)); /* absent: not known */
	return text;
}

/* Which process it is */

/* The inode of the socket that listens on that port of this machine; 0: none. */
static unsigned long listener(const char *table, unsigned port)
{
	autofree char *text = proc_read("%s", table);
	struct span rest = SPAN(text ? text : ""), line;
	unsigned long inode;
	unsigned at, state;

	while (rest.p && rest.len) {
		char copy[256];

		line = span_cut(rest, '\n', &rest);
		(void)snprintf(copy, sizeof(copy), "%.*s", (int)line.len, line.p);
		/* sl local:port remote:port state queues timer retransmits uid timeout inode */
		if (sscanf(copy, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*u %lu",
			   &at, &state, &inode) == 3 &&
		    at == port && state == 0x0a)
			return inode;
	}
	return 0;
}

static bool has_socket(const char *pid, unsigned long inode)
{
	char dir[64], path[PATH_MAX], to[64], want[64];
	struct dirent *f;
	bool found = false;
	DIR *d;

	(void)snprintf(dir, sizeof(dir), "/proc/%s/fd", pid);
	(void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
	d = opendir(dir);
	while (d && !found && (f = readdir(d)) != NULL) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "%s/%s", dir, f->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[MAX(n, (ssize_t)0)] = '\0';
		found = str_eq(to, want);
	}
	if (d)
		closedir(d);
	return found;
}

static bool is_cay(const char *pid)
{
	autofree char *comm = proc_read("/proc/%s/comm", pid);

	return comm && str_starts(comm, "cay\n");
}

/* 0: not on this machine, or not cay. */
static pid_t find_listener(const struct api *a)
{
	const char *colon = strrchr(a->addr, ':');
	unsigned long inode;
	struct dirent *p;
	pid_t found = 0;
	int64_t port = 0;
	DIR *proc;

	err_free(parse_int(colon ? colon + 1 : "", 1, 65535, &port));
	if (!port || !(str_starts(a->addr, "127.") || str_starts(a->addr, "[::1]")))
		return 0;
	inode = listener("/proc/net/tcp", (unsigned)port);
	if (!inode)
		inode = listener("/proc/net/tcp6", (unsigned)port);
	proc = inode ? opendir("/proc") : NULL;
	while (proc && !found && (p = readdir(proc)) != NULL)
		if (isdigit((unsigned char)p->d_name[0]) && is_cay(p->d_name) &&
		    has_socket(p->d_name, inode)) {
			int64_t pid = 0;

			err_free(parse_int(p->d_name, 1, INT32_MAX, &pid));
			found = (pid_t)pid;
		}
	if (proc)
		closedir(proc);
	return found;
}

struct err *host_find_servers(struct bench *b)
{
	const char *named = settings_text(b->settings, "server-pid");
	struct span rest = SPAN(named ? named : ""), one;
	pid_t found = named ? 0 : find_listener(&b->api);

	if (found)
		b->servers[b->n_servers++] = found;
	while (named && rest.p) {
		autofree char *text = NULL;
		autoptr(err) bad = NULL;
		int64_t pid = 0;

		one = span_trim(span_cut(rest, ',', &rest));
		text = xstrndup(one.p, one.len);
		bad = parse_int(text, 1, INT32_MAX, &pid);
		if (bad || b->n_servers == SERVERS_MAX)
			return err_new(
				ERR_INVALID,
				"--server-pid: \"%s\": give at most %d process ids, as in 812,813",
				text, SERVERS_MAX);
		b->servers[b->n_servers++] = (pid_t)pid;
	}
	return NULL;
}

/* What it uses */

/* schedstat: nanoseconds on a CPU, nanoseconds waiting for one, time slices */
static bool read_schedstat(pid_t pid, const char *task, double *ret_us, double *ret_wait_us)
{
	autofree char *text = proc_read("/proc/%d/task/%s/schedstat", (int)pid, task);
	unsigned long long on = 0, wait = 0;

	if (!text || sscanf(text, "%llu %llu", &on, &wait) != 2)
		return false;
	*ret_us = (double)on / 1e3;
	*ret_wait_us = (double)wait / 1e3;
	return true;
}

static double all_threads_us(pid_t pid)
{
	char dir[64];
	struct dirent *t;
	double sum = 0, us, wait;
	DIR *d;

	(void)snprintf(dir, sizeof(dir), "/proc/%d/task", (int)pid);
	d = opendir(dir);
	while (d && (t = readdir(d)) != NULL)
		if (t->d_name[0] != '.' && read_schedstat(pid, t->d_name, &us, &wait))
			sum += us;
	if (d)
		closedir(d);
	return sum;
}

/* "VmRSS:  1234 kB" → bytes */
static double field_bytes(const char *text, const char *name)
{
	const char *at = text ? strstr(text, name) : NULL;

	return at ? strtod(at + strlen(name), NULL) * 1024 : 0;
}

static char *label_of(const char *line, const char *name)
{
	autofree char *key = xasprintf("%s=\"", name);
	const char *at = strstr(line, key), *end;

	if (!at)
		return xstrdup("");
	at += strlen(key);
	end = strchr(at, '"');
	return xstrndup(at, end ? (size_t)(end - at) : 0);
}

static void add_writes(struct map *m, const char *key, double n)
{
	double *v = map_get(m, key);

	if (!v) {
		v = xnew(double);
		map_put(m, key, v);
	}
	*v += n;
}

/* A line of the API server of a cluster, which does not count by the names below:
 * apiserver_request_total{code="200",resource="pods",...} 12. What was refused is no write, and is
 * counted apart: by whom it was sent does not matter. */
static void note_request(struct map *m, const char *line)
{
	static const char *const writes[] = { "POST", "PUT", "PATCH", "APPLY", "DELETE", NULL };
	autofree char *verb = label_of(line, "verb");
	autofree char *resource = label_of(line, "resource");
	autofree char *sub = label_of(line, "subresource");
	autofree char *code = label_of(line, "code");
	bool refused = *code == '4' || *code == '5';
	autofree char *key =
		xasprintf("%s%s%s%s %s%s%s", refused ? REFUSED : "", refused ? code : "",
			  refused ? " " : "", verb, resource, *sub ? "/" : "", sub);
	const char *value = strrchr(line, ' ');

	/* A leader renews its lease whether there are claims or not. */
	if (value && str_in(verb, writes) && !str_eq(resource, "leases"))
		add_writes(m, key, strtod(value, NULL));
}

static void note_metric(struct map *m, const char *line)
{
	static const struct {
		const char *prefix, *key;
	} ours[] = { { "cay_api_writes_total ", "writes" },
		     { "cay_store_rows_total ", "rows" },
		     { "cay_store_commits_total ", "commits" } };

	if (str_starts(line, "apiserver_request_total{") && !map_has(m, ours[0].key))
		note_request(m, line);
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (str_starts(line, ours[i].prefix))
			add_writes(m, ours[i].key, strtod(line + strlen(ours[i].prefix), NULL));
}

static struct map *read_writes(struct bench *b)
{
	struct call c = { 0 };
	struct map *m = map_new(free);
	struct span rest, line;
	autoptr(err) e = NULL;

	call_start(&c, &b->lane, &(struct ask){ .method = "GET", .path = "/metrics" });
	e = bench_until(b, &c.over, 60000);
	rest = SPAN(!e && call_ok(&c) ? buf_str(&c.body) : "");
	while (rest.p && rest.len) {
		autofree char *copy = NULL;

		line = span_cut(rest, '\n', &rest);
		if (line.len && line.p[0] == '#')
			continue;
		copy = xstrndup(line.p, line.len);
		note_metric(m, copy);
	}
	call_done(&c);
	return m;
}

void host_usage(struct bench *b, struct usage *ret)
{
	char task[16];
	autofree char *memory = proc_read("/proc/meminfo");

	*ret = (struct usage){ .writes = read_writes(b),
			       .mem_available = field_bytes(memory, "MemAvailable:") };
	if (!b->n_servers)
		return;
	(void)snprintf(task, sizeof(task), "%d", (int)b->servers[0]);
	ret->known = read_schedstat(b->servers[0], task, &ret->loop_us, &ret->loop_wait_us);
	for (size_t i = 0; i < b->n_servers; i++) {
		autofree char *status = proc_read("/proc/%d/status", (int)b->servers[i]);

		ret->cpu_us += all_threads_us(b->servers[i]);
		ret->rss += field_bytes(status, "VmRSS:");
	}
}

double host_loop_us(const struct bench *b)
{
	double us = 0, wait_us;
	char task[32];

	(void)snprintf(task, sizeof(task), "%d", (int)b->servers[0]);
	return b->n_servers && read_schedstat(b->servers[0], task, &us, &wait_us) ? us : 0;
}

void usage_done(struct usage *u)
{
	map_free(u->writes);
	u->writes = NULL;
}

static void row_writes(struct row *r, const struct usage *was, const struct usage *now, double n)
{
	double sum = 0, refused = 0;

	r->writes = json_doc_new();
	json_set_root(r->writes, json_obj(r->writes));
	map_each(it, now->writes) {
		const double *before = map_get(was->writes, it.key);
		double each = (*(double *)it.value - (before ? *before : 0)) / n;

		if (each <= 0)
			continue;
		json_set(r->writes, json_root(r->writes), it.key, json_new_real(r->writes, each));
		if (str_starts(it.key, REFUSED))
			refused += each;
		else if (strchr(it.key, ' ') || str_eq(it.key, "writes"))
			sum += each;
	}
	if (map_len(now->writes))
		row_figure(r, "writes", sum);
	if (refused > 0)
		row_figure(r, "writes_refused", refused);
}

void row_usage(struct row *r, const struct usage *was, const struct usage *now, size_t n)
{
	double count = (double)MAX(n, (size_t)1);

	if (was->known && now->known) {
		row_figure(r, "loop_cpu_us", (now->loop_us - was->loop_us) / count);
		row_figure(r, "loop_wait_us", (now->loop_wait_us - was->loop_wait_us) / count);
		row_figure(r, "server_cpu_us", (now->cpu_us - was->cpu_us) / count);
	}
	if (was->writes && now->writes)
		row_writes(r, was, now, count);
}

/* Conditions */

static const char *fs_name(const char *dir)
{
	static const struct {
		long magic;
		const char *name;
	} known[] = { { 0xef53, "ext4" },      { 0x9123683e, "btrfs" },   { 0x58465342, "xfs" },
		      { 0x01021994, "tmpfs" }, { 0x794c7630, "overlay" }, { 0x2fc12fc1, "zfs" } };
	struct statfs st;

	for (size_t i = 0; statfs(dir, &st) == 0 && i < ARRAY_LEN(known); i++)
		if ((long)st.f_type == known[i].magic)
			return known[i].name;
	return "unknown";
}

void host_conditions(struct bench *b, struct json_doc *d, struct json *root)
{
	struct utsname u;
	double load[3] = { 0 };

	uname(&u);
	(void)getloadavg(load, 3);
	json_set_str(d, root, "version", CAY_VERSION);
	json_set_str(d, root, "build", CAY_BUILD_TYPE);
	json_set_str(d, root, "kernel", u.release);
	json_set_int(d, root, "cores", sysconf(_SC_NPROCESSORS_ONLN));
	json_set_str(d, root, "filesystem", fs_name(settings_text(b->settings, "floor-dir")));
	json_set_str(d, root, "image", settings_text(b->settings, "image"));
	json_set_int(d, root, "server_pid", b->servers[0]);
	json_set(d, root, "load_before", json_new_real(d, b->load_before));
	json_set(d, root, "load_after", json_new_real(d, load[0]));
}
