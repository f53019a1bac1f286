/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/cgroup_root.h"
#include "node/host/leftover.h"

/*
 * Which controller lives in which hierarchy is read from the mount table. A limit goes to the
 * hierarchy that has its controller. On a hybrid host the version 2 tree has no controllers, but
 * still groups the processes of a slot and can kill them in one write.
 */
struct hier {
	char *mount;  /* "/sys/fs/cgroup/memory" */
	unsigned has; /* CGROUP_* */
	bool v2;
	int parent; /* directory of our groups: what a slot does there is a short way from it */
};

struct cgroups {
	char *parent;
	struct hier *hier;
	size_t n;
	unsigned have;
	bool no_kill;
	char *obstacle;
};

enum {
	PERIOD_US = 100000, /* of CPU quotas: the kernel's own */
};

static const struct {
	const char *name;
	unsigned bit;
} controllers[] = {
	{ "memory", CGROUP_MEMORY },     { "cpu", CGROUP_CPU },         { "pids", CGROUP_PIDS },
	{ "name=systemd", CGROUP_TREE }, { "freezer", CGROUP_FREEZER },
};

static unsigned controllers_of(const char *list, char sep)
{
	struct span rest = SPAN(list);
	unsigned has = 0;

	while (rest.p) {
		struct span one = span_cut(rest, sep, &rest);

		for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
			if (span_eq(one, controllers[i].name))
				has |= controllers[i].bit;
	}
	return has;
}

static void add_hier(struct cgroups *c, const char *mount, unsigned has, bool v2)
{
	has &= ~c->have; /* a controller is in one hierarchy; its second mount says nothing new */
	if (!has)
		return;
	c->hier = xrealloc(c->hier, (c->n + 1) * sizeof(*c->hier));
	c->hier[c->n++] = (struct hier){ xstrdup(mount), has, v2, -1 };
	c->have |= has;
}

/* The first line of a file with names, as bits; 0: there is none. */
static unsigned controllers_in(const char *dir, const char *file)
{
	autofree char *path = xasprintf("%s/%s", dir, file), *text = NULL;

	err_free(file_read(AT_FDCWD, path, 4096, &text, NULL));
	if (!text)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return controllers_of(text, ' ');
}

/* One by one: one that is missing or taken must not cost us the others. */
static void hand_down(const char *dir, unsigned want)
{
	autofree char *path = xasprintf("%s/cgroup.subtree_control", dir);

	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		autofree char *word = xasprintf("+%s", controllers[i].name);

		if (controllers[i].bit & want & CGROUP_LIMITING)
			err_free(file_write(AT_FDCWD, path, word));
	}
}

/* The version 2 controllers that may be handed to our groups. The group around ours is asked only
 * for those that ours does not have yet: it may be somebody else's. */
static unsigned v2_controllers(struct cgroups *c, const char *mount, bool make)
{
	autofree char *dir = xasprintf("%s/%s", mount, c->parent);
	autofree char *above = xstrndup(dir, (size_t)(strrchr(dir, '/') - dir));

	if (make && controllers_in(above, "cgroup.controllers")) {
		autoptr(err) e = str_eq(above, mount) ? cgroup_root_clear(mount) : NULL;

		if (e && !c->obstacle)
			c->obstacle = xstrdup(err_text(e));
		(void)mkdir(dir, 0755);
		hand_down(above, ~controllers_in(dir, "cgroup.controllers"));
		hand_down(dir, ~0U);
	}
	return controllers_in(dir, "cgroup.subtree_control");
}

/* A line of /proc/self/mountinfo: id parent dev root mountpoint options ... - type source super */
static bool mount_line(char *line, char **ret_at, char **ret_type, char **ret_super)
{
	char *save = NULL, *word;
	unsigned i = 0;

	*ret_at = *ret_type = *ret_super = NULL;
	for (word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save), i++) {
		if (i == 4)
			*ret_at = word;
		if (i > 5 && str_eq(word, "-"))
			break;
	}
	if (!word)
		return false;
	*ret_type = strtok_r(NULL, " ", &save);
	(void)strtok_r(NULL, " ", &save);
	*ret_super = strtok_r(NULL, " ", &save);
	return *ret_at && *ret_type && *ret_super;
}

static void read_mounts(struct cgroups *c, char *text, bool want_v2, bool make)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *at, *type, *super;

		if (!mount_line(line, &at, &type, &super))
			continue;
		if (want_v2 && str_eq(type, "cgroup2") && !(c->have & CGROUP_TREE))
			add_hier(c, at, CGROUP_TREE | CGROUP_FREEZER | v2_controllers(c, at, make),
				 true);
		else if (!want_v2 && str_eq(type, "cgroup"))
			add_hier(c, at, controllers_of(super, ','), false);
	}
}

static struct err *make_parents(struct cgroups *c)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = xasprintf("%s/%s", c->hier[i].mount, c->parent);

		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create control group %s", dir);
		c->hier[i].parent = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (c->hier[i].parent < 0)
			return err_sys(errno, "open control group %s", dir);
	}
	return NULL;
}

struct err *cgroups_open(const char *parent, bool make, struct cgroups **ret)
{
	autoptr(cgroups) c = xnew(struct cgroups);
	autofree char *text = NULL, *again = NULL;
	struct err *e;

	c->parent = xstrdup(parent);
	e = file_read(AT_FDCWD, "/proc/self/mountinfo", 8 << 20, &text, NULL);
	if (e)
		return e;
	again = xstrdup(text);
	read_mounts(c, text, true, make);
	read_mounts(c, again, false, make);
	if (!c->n)
		return err_new(
			ERR_UNSUPPORTED,
			"no control group hierarchy is mounted; mount cgroup2 at /sys/fs/cgroup");
	e = make ? make_parents(c) : NULL;
	if (e)
		return e;
	*ret = take(c);
	return NULL;
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		free(c->hier[i].mount);
		if (c->hier[i].parent >= 0)
			(void)close(c->hier[i].parent);
	}
	free(c->hier);
	free(c->parent);
	free(c->obstacle);
	free(c);
}

const char *cgroups_parent(const struct cgroups *c)
{
	return c->parent;
}

char *cgroups_v2_dir(const struct cgroups *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->hier[i].v2)
			return xasprintf("%s/%s", c->hier[i].mount, c->parent);
	return NULL;
}

void cgroups_use_kill(struct cgroups *c, bool use)
{
	c->no_kill = !use;
}

unsigned cgroups_have(const struct cgroups *c)
{
	return c->have;
}

const char *cgroups_obstacle(const struct cgroups *c)
{
	return c->obstacle;
}

static char *group_path(const struct cgroups *c, const struct hier *h, const char *name,
			const char *file)
{
	return xasprintf("%s/%s/%s%s%s", h->mount, c->parent, name, file ? "/" : "",
			 file ? file : "");
}

char *cgroup_of(const struct cgroups *c, pid_t pid)
{
	autofree char *path = xasprintf("/proc/%d/cgroup", (int)pid), *text = NULL;
	autofree char *parent = xasprintf("/%s/", c->parent);
	const char *at;

	err_free(file_read(AT_FDCWD, path, 65536, &text, NULL));
	at = text ? strstr(text, parent) : NULL;
	if (!at)
		return NULL;
	at += strlen(parent);
	return xstrndup(at, strcspn(at, "\n"));
}

struct err *cgroup_make(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (mkdirat(c->hier[i].parent, name, 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create control group %s", name);
	return NULL;
}

struct err *cgroup_enter(const struct cgroups *c, const char *name)
{
	autofree char *procs = xasprintf("%s/cgroup.procs", name);

	for (size_t i = 0; i < c->n; i++) {
		struct err *e = file_write(c->hier[i].parent, procs, "0");

		if (e)
			return err_wrap(e, "enter control group");
	}
	return NULL;
}

static struct err *set(int dir, const char *file, const char *fmt, ...) printf_like(3, 4);

static struct err *set(int dir, const char *file, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return file_write(dir, file, text);
}

static struct err *limit_memory(int dir, bool v2, int64_t bytes)
{
	struct err *e;

	if (v2) {
		e = set(dir, "memory.max", "%lld", (long long)bytes);
		err_free(set(dir, "memory.swap.max", "0")); /* a kernel may have no swap */
		return e;
	}
	e = set(dir, "memory.limit_in_bytes", "%lld", (long long)bytes);
	if (e) { /* it may not exceed the limit with swap: raise that first */
		err_free(e);
		err_free(set(dir, "memory.memsw.limit_in_bytes", "%lld", (long long)bytes));
		e = set(dir, "memory.limit_in_bytes", "%lld", (long long)bytes);
	}
	err_free(set(dir, "memory.memsw.limit_in_bytes", "%lld", (long long)bytes));
	return e;
}

static struct err *limit_cpu(int dir, bool v2, const struct cgroup_limits *l)
{
	long long quota = MAX(l->cpu_milli * PERIOD_US / 1000, (int64_t)1000);
	long long shares = MIN(MAX(l->cpu_share * 1024 / 1000, (int64_t)2), (int64_t)262144);
	struct err *e = NULL;

	if (v2) {
		err_free(set(dir, "cpu.weight", "%lld", 1 + ((shares - 2) * 9999) / 262142));
		if (l->cpu_milli)
			e = set(dir, "cpu.max", "%lld %d", quota, PERIOD_US);
		return e;
	}
	err_free(set(dir, "cpu.shares", "%lld", shares));
	if (l->cpu_milli) /* a new group has the period already, and setting it costs as much */
		e = set(dir, "cpu.cfs_quota_us", "%lld", quota);
	return e;
}

struct err *cgroup_limit(const struct cgroups *c, const char *name, const struct cgroup_limits *l)
{
	struct err *e = NULL;

	for (size_t i = 0; i < c->n && !e; i++) {
		const struct hier *h = &c->hier[i];
		autoclose dir = openat(h->parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (dir < 0)
			return err_sys(errno, "open control group %s", name);
		if ((h->has & CGROUP_MEMORY) && l->memory)
			e = limit_memory(dir, h->v2, l->memory);
		if (!e && (h->has & CGROUP_CPU) && (l->cpu_milli || l->cpu_share))
			e = limit_cpu(dir, h->v2, l);
		if (!e && (h->has & CGROUP_PIDS) && l->pids)
			e = set(dir, "pids.max", "%lld", (long long)l->pids);
	}
	return err_wrap(e, "set limits");
}

struct err *cgroups_limit(const struct cgroups *c, const struct cgroup_limits *l)
{
	struct err *e = NULL;

	for (size_t i = 0; i < c->n && !e; i++) {
		const struct hier *h = &c->hier[i];
		int dir = h->parent;

		if (!h->v2 && (h->has & CGROUP_MEMORY)) /* an old kernel; others have no choice */
			err_free(set(dir, "memory.use_hierarchy", "1"));
		if ((h->has & CGROUP_MEMORY) && l->memory)
			e = limit_memory(dir, h->v2, l->memory);
		if (!e && (h->has & CGROUP_PIDS) && l->pids)
			e = set(dir, "pids.max", "%lld", (long long)l->pids);
	}
	return err_wrap(e, "set the limits of all sandboxes together");
}

int64_t cgroup_oom_kills(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *path = NULL, *text = NULL;
		const char *at;
		int64_t n = 0;

		if (!(c->hier[i].has & CGROUP_MEMORY))
			continue;
		path = group_path(c, &c->hier[i], name,
				  c->hier[i].v2 ? "memory.events" : "memory.oom_control");
		err_free(file_read(AT_FDCWD, path, 4096, &text, NULL));
		at = text ? strstr(text, "oom_kill ") : NULL;
		for (at = at ? at + 9 : ""; *at >= '0' && *at <= '9'; at++)
			n = n * 10 + (*at - '0');
		return n;
	}
	return 0;
}

/* The number behind a name at the beginning of a line; 0: there is none. */
static int64_t line_value(const char *text, const char *name)
{
	size_t len = strlen(name);
	int64_t v = 0;

	while (text && (strncmp(text, name, len) != 0 || text[len] != ' ')) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	for (text = text ? text + len + 1 : ""; *text >= '0' && *text <= '9'; text++)
		v = v * 10 + (*text - '0');
	return v;
}

/* name NULL: the file is the number. */
static int64_t value_in(int dir, const char *file, const char *name)
{
	autofree char *text = NULL, *line = NULL;

	err_free(file_read(dir, file, 65536, &text, NULL)); /* a kernel may not have it */
	if (!name && text)
		line = xasprintf("value %s", text);
	return line_value(name ? text : line, name ? name : "value");
}

static void usage_in(int dir, const struct hier *h, struct cgroup_usage *u)
{
	if (h->v2) /* also without the controller, as on a hybrid host */
		u->cpu_usec = value_in(dir, "cpu.stat", "usage_usec");
	else if ((h->has & CGROUP_CPU) && !u->cpu_usec) /* where cpuacct is in the same hierarchy */
		u->cpu_usec = value_in(dir, "cpuacct.usage", NULL) / 1000;
	if (h->has & CGROUP_MEMORY)
		u->memory_peak =
			value_in(dir, h->v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
}

static int open_group(const struct hier *h, const char *name)
{
	return openat(h->parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What a file says; 0: version 2 says "max". An unlimited group of version 1 says a huge number. */
static int64_t limit_in(int dir, const char *file)
{
	autofree char *text = NULL;
	int64_t n = 0;

	err_free(file_read(dir, file, 256, &text, NULL));
	if (!text)
		return 0;
	text[strcspn(text, " \n")] = '\0';
	err_free(parse_int(text, 0, INT64_MAX, &n)); /* "max" and -1 are none */
	return n;
}

struct err *cgroup_read_limits(const struct cgroups *c, const char *name, struct cgroup_limits *ret)
{
	struct cgroup_limits l = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		const struct hier *h = &c->hier[i];
		autoclose dir = open_group(h, name);

		if (dir < 0)
			return err_sys(errno, "open control group %s", name);
		if (h->has & CGROUP_MEMORY)
			l.memory = limit_in(dir, h->v2 ? "memory.max" : "memory.limit_in_bytes");
		if (h->has & CGROUP_CPU)
			l.cpu_milli = limit_in(dir, h->v2 ? "cpu.max" : "cpu.cfs_quota_us") * 1000 /
				      PERIOD_US;
		if (h->has & CGROUP_PIDS)
			l.pids = limit_in(dir, "pids.max");
	}
	*ret = l;
	return NULL;
}

bool cgroup_usage(const struct cgroups *c, const char *name, struct cgroup_usage *ret)
{
	struct cgroup_usage u = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		autoclose dir = open_group(&c->hier[i], name);

		if (dir < 0)
			return false;
		usage_in(dir, &c->hier[i], &u);
	}
	*ret = u;
	return true;
}

static void add_private(void *arg, pid_t pid)
{
	autofree char *path = xasprintf("/proc/%d/status", (int)pid), *text = NULL;
	const char *at;
	int64_t kib = 0;

	err_free(file_read(AT_FDCWD, path, 65536, &text, NULL)); /* it may have ended */
	at = text ? strstr(text, "\nRssAnon:") : NULL;
	for (at = at ? at + strlen("\nRssAnon:") : ""; *at == ' ' || *at == '\t'; at++)
		;
	for (; *at >= '0' && *at <= '9'; at++)
		kib = kib * 10 + (*at - '0');
	*(int64_t *)arg += kib * 1024;
}

/* Of a group whose memory the kernel does not count: what its processes have for themselves. */
static int64_t private_memory(const struct cgroups *c, const char *name)
{
	int64_t sum = 0;

	cgroup_each_process(c, name, add_private, &sum);
	return sum;
}

int64_t cgroup_memory(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct hier *h = &c->hier[i];
		autoclose dir = h->has & CGROUP_MEMORY ? open_group(h, name) : -1;
		int64_t all, idle;

		if (dir < 0)
			continue;
		if (h->v2 && !file_exists(dir, "memory.current"))
			return private_memory(c, name);
		all = value_in(dir, h->v2 ? "memory.current" : "memory.usage_in_bytes", NULL);
		idle = value_in(dir, "memory.stat",
				h->v2 ? "inactive_file" : "total_inactive_file");
		return all - MIN(idle, all);
	}
	return 0;
}

/* The groups right below one, by their absolute paths. There are no deeper ones: nobody but us
 * makes groups here. */
static void each_below(const char *path, void (*fn)(void *arg, const char *name, const char *path),
		       void *arg)
{
	DIR *d = opendir(path);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		autofree char *below = NULL;

		if (de->d_type != DT_DIR || de->d_name[0] == '.')
			continue;
		below = xasprintf("%s/%s", path, de->d_name);
		fn(arg, de->d_name, below);
	}
	if (d)
		(void)closedir(d);
}

static void pids_in(const char *path, void (*fn)(void *arg, pid_t pid), void *arg)
{
	autofree char *procs = xasprintf("%s/cgroup.procs", path);
	autofree char *text = NULL;
	char *save = NULL;

	err_free(file_read(AT_FDCWD, procs, 4 << 20, &text, NULL));
	for (char *w = text ? strtok_r(text, "\n", &save) : NULL; w;
	     w = strtok_r(NULL, "\n", &save)) {
		int64_t pid = 0;

		err_free(parse_int(w, 1, INT32_MAX, &pid));
		if (pid)
			fn(arg, (pid_t)pid);
	}
}

struct pid_visit {
	void (*fn)(void *arg, pid_t pid);
	void *arg;
};

static void visit_below(void *arg, unused const char *name, const char *path)
{
	const struct pid_visit *v = arg;

	pids_in(path, v->fn, v->arg);
}

void cgroup_each_pid(const char *path, void (*fn)(void *arg, pid_t pid), void *arg)
{
	struct pid_visit v = { fn, arg };

	pids_in(path, fn, arg);
	each_below(path, visit_below, &v);
}

void cgroup_each_process(const struct cgroups *c, const char *name,
			 void (*fn)(void *arg, pid_t pid), void *arg)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = group_path(c, &c->hier[i], name, NULL);

		if (c->hier[i].has & CGROUP_TREE)
			cgroup_each_pid(dir, fn, arg);
	}
}

/* Version 1 limits memory and swap space together, which is limit enough. In version 2 the group
 * of all must allow it too; the others have a limit of their own. */
void cgroup_let_swap(const struct cgroups *c, const char *name, bool may)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct hier *h = &c->hier[i];
		autofree char *file = xasprintf("%s/memory.swap.max", name);

		if (!h->v2 || !(h->has & CGROUP_MEMORY))
			continue;
		if (may)
			err_free(file_write(h->parent, "memory.swap.max", "max"));
		err_free(file_write(h->parent, file, may ? "max" : "0"));
	}
}

static void kill_pid(unused void *arg, pid_t pid)
{
	(void)kill(pid, SIGKILL); /* it was in our group a moment ago */
}

static const struct hier *freezer(const struct cgroups *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->hier[i].has & CGROUP_FREEZER)
			return &c->hier[i];
	return NULL;
}

struct err *cgroup_freeze(const struct cgroups *c, const char *name, bool frozen)
{
	const struct hier *h = freezer(c);
	autofree char *path = NULL;
	struct err *e;

	if (!h)
		return err_new(ERR_UNSUPPORTED, "this host has no control group freezer");
	path = group_path(c, h, name, h->v2 ? "cgroup.freeze" : "freezer.state");
	if (h->v2)
		e = file_write(AT_FDCWD, path, frozen ? "1" : "0");
	else
		e = file_write(AT_FDCWD, path, frozen ? "FROZEN" : "THAWED");
	return err_wrap(e, frozen ? "freeze" : "thaw");
}

bool cgroup_frozen(const struct cgroups *c, const char *name)
{
	const struct hier *h = freezer(c);
	autofree char *path = NULL, *text = NULL;

	if (!h)
		return false;
	path = group_path(c, h, name, h->v2 ? "cgroup.events" : "freezer.state");
	err_free(file_read(AT_FDCWD, path, 4096, &text, NULL));
	return text && strstr(text, h->v2 ? "frozen 1" : "FROZEN");
}

/* Version 2 since Linux 5.14, parts and all. */
static bool kill_whole(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n && !c->no_kill; i++) {
		autofree char *path = NULL;
		struct err *e;

		if (!c->hier[i].v2)
			continue;
		path = group_path(c, &c->hier[i], name, "cgroup.kill");
		e = file_write(AT_FDCWD, path, "1");
		err_free(e);
		return !e;
	}
	return false;
}

/* One by one: they are stopped first where that can be done, so that none starts another
 * meanwhile. What is frozen in version 1 dies when it goes on. */
void cgroup_kill(const struct cgroups *c, const char *name)
{
	err_free(cgroup_freeze(c, name, false));
	if (kill_whole(c, name))
		return;
	err_free(cgroup_freeze(c, name, true));
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = group_path(c, &c->hier[i], name, NULL);

		cgroup_each_pid(dir, kill_pid, NULL);
	}
	err_free(cgroup_freeze(c, name, false));
}

static void remove_below(unused void *arg, unused const char *name, const char *path)
{
	(void)rmdir(path); /* if it is not empty, nor is the one around it */
}

static int remove_dir(const char *dir)
{
	if (!rmdir(dir))
		return 0;
	if (errno != EBUSY)
		return -1;
	each_below(dir, remove_below, NULL);
	return rmdir(dir);
}

struct err *cgroup_remove(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = group_path(c, &c->hier[i], name, NULL);

		if (!remove_dir(dir) || errno == ENOENT)
			continue;
		if (errno == EBUSY)
			return err_new(ERR_UNAVAILABLE, "control group %s still has processes",
				       dir);
		return err_sys(errno, "remove control group %s", dir);
	}
	return NULL;
}

static void count_pid(void *arg, unused pid_t pid)
{
	++*(size_t *)arg;
}

char *cgroup_events_path(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->hier[i].v2)
			return group_path(c, &c->hier[i], name, "cgroup.events");
	return NULL;
}

bool cgroup_populated(const struct cgroups *c, const char *name)
{
	autofree char *path = cgroup_events_path(c, name), *text = NULL;

	if (path)
		err_free(file_read(AT_FDCWD, path, 4096, &text, NULL));
	return text && strstr(text, "populated 1");
}

void cgroups_remove_parent(const struct cgroups *c)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = xasprintf("%s/%s", c->hier[i].mount, c->parent);

		(void)rmdir(dir); /* refused while anything is in it */
	}
}

void cgroups_each(const struct cgroups *c,
		  void (*fn)(void *arg, const char *name, const char *path), void *arg)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = xasprintf("%s/%s", c->hier[i].mount, c->parent);

		each_below(dir, fn, arg);
	}
}

static void sweep_one(void *prefix, const char *name, const char *path)
{
	if (is_leftover(name, prefix))
		(void)remove_dir(path);
}

void cgroups_sweep(const char *prefix)
{
	autofree char *word = xstrdup(prefix);
	autoptr(cgroups) c = NULL;
	struct err *e = cgroups_open(prefix, false, &c);

	for (size_t i = 0; !e && i < c->n; i++)
		each_below(c->hier[i].mount, sweep_one, word);
	err_free(e); /* where there are no groups, none is left */
}

void cgroup_each_below(const struct cgroups *c, const char *name,
		       void (*fn)(void *arg, const char *name, const char *path), void *arg)
{
	for (size_t i = 0; i < c->n; i++) {
		autofree char *dir = group_path(c, &c->hier[i], name, NULL);

		if (c->hier[i].has & CGROUP_TREE)
			each_below(dir, fn, arg);
	}
}

bool cgroup_empty(const struct cgroups *c, const char *name)
{
	size_t n = 0;

	cgroup_each_process(c, name, count_pid, &n);
	return !n;
}

uint64_t cgroup_identity(const struct cgroups *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		autoclose dir = c->hier[i].has & CGROUP_TREE ? open_group(&c->hier[i], name) : -1;
		struct stat st;

		if (dir >= 0 && !fstat(dir, &st))
			return st.st_ino;
	}
	return 0;
}
