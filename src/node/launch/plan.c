/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "json/json.h"
#include "json/record.h"
#include "node/launch/launch_priv.h"

/*
 * The tables by which a plan is written and read. The reader is the launcher, which is root: it
 * rejects a plan in which a path is missing or relative, wherever the plan came from.
 */
const struct record_field plan_image_fields[] = {
	RECORD(struct plan_image, lower, RECORD_STRS),
	RECORD(struct plan_image, host_usr, RECORD_BOOL),
	RECORD(struct plan_image, usr, RECORD_STR),
	{ 0 },
};

static const struct record_field limits_fields[] = {
	RECORD(struct plan_limits, memory, RECORD_INT64),
	RECORD(struct plan_limits, cpu, RECORD_INT64),
	RECORD(struct plan_limits, cpu_share, RECORD_INT64),
	RECORD(struct plan_limits, pids, RECORD_INT64),
	RECORD(struct plan_limits, disk, RECORD_INT64),
	RECORD(struct plan_limits, oom_score, RECORD_INT64),
	{ 0 },
};

static const struct record_field mount_fields[] = {
	RECORD(struct plan_mount, to, RECORD_STR),
	RECORD(struct plan_mount, from, RECORD_STR),
	RECORD(struct plan_mount, sub, RECORD_STR),
	RECORD(struct plan_mount, file, RECORD_BOOL),
	RECORD(struct plan_mount, make, RECORD_BOOL),
	RECORD(struct plan_mount, readonly, RECORD_BOOL),
	RECORD(struct plan_mount, noexec, RECORD_BOOL),
	RECORD(struct plan_mount, spare, RECORD_BOOL),
	RECORD(struct plan_mount, memory, RECORD_BOOL),
	RECORD(struct plan_mount, size, RECORD_INT64),
	RECORD(struct plan_mount, group, RECORD_INT64),
	RECORD(struct plan_mount, host, RECORD_INT64),
	{ 0 },
};

static const struct record_field oci_fields[] = {
	RECORD(struct plan_oci, program, RECORD_STR),
	RECORD(struct plan_oci, style, RECORD_STR),
	RECORD(struct plan_oci, args, RECORD_STRS),
	{ 0 },
};

static const struct record_field plan_fields[] = {
	RECORD_IN(struct plan, image, plan_image_fields),
	RECORD(struct plan, readonly, RECORD_BOOL),
	RECORD(struct plan, join, RECORD_BOOL),
	RECORD(struct plan, hostname, RECORD_STR),
	RECORD(struct plan, etc_hostname, RECORD_STR),
	RECORD(struct plan, etc_hosts, RECORD_STR),
	RECORD(struct plan, etc_resolv_conf, RECORD_STR),
	RECORD(struct plan, workdir, RECORD_STR),
	RECORD_IN(struct plan, limits, limits_fields),
	RECORD_IN(struct plan, oci, oci_fields),
	RECORD_MANY(struct plan, mounts, n_mounts, mount_fields),
	{ 0 },
};

static bool absolute(const char *path)
{
	return path && *path == '/';
}

static struct err *check_mount(const struct plan_mount *m)
{
	if (!absolute(m->to))
		return err_new(ERR_MALFORMED, "mount target \"%s\" is not an absolute path",
			       str_or(m->to, ""));
	if (!m->memory && !absolute(m->from))
		return err_new(ERR_MALFORMED, "source \"%s\" of %s is not an absolute path",
			       str_or(m->from, ""), m->to);
	return NULL;
}

static struct err *check(const struct plan *p)
{
	struct err *e = NULL;

	for (const char **l = p->image.lower; l && *l; l++)
		if (!absolute(*l))
			return err_new(ERR_MALFORMED, "layer \"%s\" is not an absolute path", *l);
	if (p->image.usr && !absolute(p->image.usr))
		return err_new(ERR_MALFORMED, "layer \"%s\" is not an absolute path", p->image.usr);
	if (p->workdir && !absolute(p->workdir))
		return err_new(ERR_MALFORMED, "working directory \"%s\" is not an absolute path",
			       p->workdir);
	if (p->oci.program && !absolute(p->oci.program))
		return err_new(ERR_MALFORMED, "runtime \"%s\" is not an absolute path",
			       p->oci.program);
	for (size_t i = 0; i < p->n_mounts && !e; i++)
		e = check_mount(&p->mounts[i]);
	return e;
}

struct err *plan_from_text(const char *text, size_t len, struct arena *a, struct plan *ret)
{
	const struct json_limits limits = { .max_len = PLAN_MAX };
	autoptr(json_doc) d = NULL;
	struct plan p;
	struct err *e = json_parse(text, len, &limits, &d);

	if (!e)
		e = record_read(json_root(d), plan_fields, a, &p);
	if (!e)
		e = check(&p);
	if (e)
		return err_wrap(e, "read the plan");
	*ret = p;
	return NULL;
}

struct err *plan_from_fd(int fd, struct arena *a, struct plan *ret)
{
	autofree char *text = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(errno, "read the plan");
	if (st.st_size > PLAN_MAX)
		return err_new(ERR_TOO_LARGE, "plan has %lld bytes, more than %d",
			       (long long)st.st_size, PLAN_MAX);
	text = xmalloc((size_t)st.st_size + 1);
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return err_sys(errno, "read the plan");
	return plan_from_text(text, (size_t)st.st_size, a, ret);
}

struct err *plan_to_memfd(const struct plan *p, int *ret_fd)
{
	autoclose fd = memfd_create("cay-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	autoptr(json_doc) d = json_doc_new();
	autobuf text = { 0 };
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create a memory file for the plan");
	json_write(record_write(d, plan_fields, p), &text);
	if (text.len > PLAN_MAX)
		return err_new(
			ERR_TOO_LARGE,
			"plan has %zu bytes, more than %d; use fewer or shorter volume mounts",
			text.len, PLAN_MAX);
	e = fd_write_all(fd, buf_head(&text), text.len);
	if (e)
		return e;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(errno, "seal the plan");
	*ret_fd = take_fd(fd);
	return NULL;
}

static const struct {
	const char *name;
	int bit;
} capabilities[] = {
	{ "AUDIT_WRITE", CAP_AUDIT_WRITE },
	{ "CHOWN", CAP_CHOWN },
	{ "DAC_OVERRIDE", CAP_DAC_OVERRIDE },
	{ "FOWNER", CAP_FOWNER },
	{ "FSETID", CAP_FSETID },
	{ "KILL", CAP_KILL },
	{ "NET_BIND_SERVICE", CAP_NET_BIND_SERVICE },
	{ "SETFCAP", CAP_SETFCAP },
	{ "SETGID", CAP_SETGID },
	{ "SETPCAP", CAP_SETPCAP },
	{ "SETUID", CAP_SETUID },
	{ "SYS_CHROOT", CAP_SYS_CHROOT },
};

int plan_capability(const char *name)
{
	if (str_starts(name, "CAP_"))
		name += strlen("CAP_");
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (str_eq(capabilities[i].name, name))
			return capabilities[i].bit;
	return -1;
}

const char *plan_capability_at(size_t i)
{
	return i < ARRAY_LEN(capabilities) ? capabilities[i].name : NULL;
}

uint64_t plan_capabilities(void)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		bits |= UINT64_C(1) << capabilities[i].bit;
	return bits;
}

static size_t count(const char **list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

bool plan_image_equal(const struct plan_image *a, const struct plan_image *b)
{
	size_t n = count(a->lower);

	if (a->host_usr != b->host_usr || !str_eq(str_or(a->usr, ""), str_or(b->usr, "")) ||
	    count(b->lower) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!str_eq(a->lower[i], b->lower[i]))
			return false;
	return true;
}

struct plan_image *plan_image_copy(const struct plan_image *i, struct arena *a)
{
	struct plan_image *copy = arena_new_of(a, struct plan_image);
	size_t n = count(i->lower);

	copy->host_usr = i->host_usr;
	copy->usr = i->usr ? arena_strdup(a, i->usr) : NULL;
	copy->lower = arena_new_n(a, const char *, n + 1);
	for (size_t k = 0; k < n; k++)
		copy->lower[k] = arena_strdup(a, i->lower[k]);
	return copy;
}
