/* SPDX-License-Identifier: Apache-2.0 */
#include "node/volume/host_path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "api/view_pod.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"

/*
 * The policy of hostPath volumes. It is a matter of names here; what a name leads to is looked at
 * by the slot that mounts it (launch/host_path.c), which follows no links.
 */
enum {
	ALLOWED_MAX = 64,
};

struct allowed {
	char *prefix;
	bool writable;
};

struct host_paths {
	struct allowed list[ALLOWED_MAX];
	size_t n;
};

/* What is no place for files: nothing below these can be allowed. */
static const char *const system_dirs[] = { "/proc", "/sys", "/dev", "/run", "/boot", NULL };

void host_paths_free(struct host_paths *h)
{
	for (size_t i = 0; h && i < h->n; i++)
		free(h->list[i].prefix);
	free(h);
}

/* Whether path is dir or in it. */
static bool is_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && (path[len] == '\0' || path[len] == '/');
}

/* Without "//", "/./" and a slash at the end; NULL: it is not absolute, or goes up. malloc'd. */
static char *tidy(const char *path)
{
	struct span rest = SPAN(path);
	autobuf out = { 0 };

	if (*path != '/')
		return NULL;
	while (rest.p) {
		struct span part = span_cut(rest, '/', &rest);

		if (span_eq(part, ".."))
			return NULL;
		if (part.len && !span_eq(part, "."))
			buf_printf(&out, "/%.*s", (int)part.len, part.p);
	}
	return xstrdup(out.len ? buf_str(&out) : "/");
}

static const char *conflict(const char *real, const char *const *not_these)
{
	for (size_t i = 0; system_dirs[i]; i++)
		if (is_in(real, system_dirs[i]))
			return system_dirs[i];
	for (size_t i = 0; not_these[i]; i++) {
		autofree char *ours = realpath(not_these[i], NULL);

		if (is_in(real, ours ? ours : not_these[i]) ||
		    is_in(ours ? ours : not_these[i], real))
			return not_these[i];
	}
	return NULL;
}

static struct err *read_one(struct host_paths *h, struct span text, const char *const *not_these)
{
	autofree char *given = xstrndup(text.p, text.len), *real = NULL;
	bool writable = str_ends(given, ":rw");
	const char *other;

	if (writable || str_ends(given, ":ro"))
		given[strlen(given) - 3] = '\0';
	real = *given == '/' ? realpath(given, NULL) : NULL;
	if (*given != '/')
		return err_new(ERR_INVALID, "\"%s\" is not an absolute path, as in /srv/data:ro",
			       given);
	if (!real)
		return err_sys(errno, "resolve %s", given);
	if (!str_eq(real, given))
		return err_new(ERR_INVALID, "%s is another name of %s; use that", given, real);
	if (str_eq(real, "/"))
		return err_new(ERR_INVALID, "/ cannot be allowed; name the directories in it");
	other = conflict(real, not_these);
	if (other)
		return err_new(ERR_INVALID, "%s cannot be allowed because of %s", real, other);
	for (size_t i = 0; i < h->n; i++)
		if (is_in(real, h->list[i].prefix) || is_in(h->list[i].prefix, real))
			return err_new(
				ERR_INVALID,
				"%s and %s: one is in the other, and could be reached through it; "
				"name one of them",
				h->list[i].prefix, real);
	if (h->n == ALLOWED_MAX)
		return err_new(ERR_INVALID, "there are more than %d", ALLOWED_MAX);
	h->list[h->n++] = (struct allowed){ .prefix = take(real), .writable = writable };
	return NULL;
}

struct err *host_paths_read(const char *text, const char *const *not_these, struct host_paths **ret)
{
	autoptr(host_paths) h = xnew(struct host_paths);
	struct span rest = SPAN(text ? text : "");
	struct err *e = NULL;

	while (!e && rest.p) {
		struct span one = span_trim(span_cut(rest, ',', &rest));

		if (one.len)
			e = read_one(h, one, not_these);
	}
	if (e)
		return err_wrap(e, "read --host-path");
	*ret = take(h);
	return NULL;
}

bool host_paths_find(const struct host_paths *h, const char *path, struct host_path *ret)
{
	static const struct allowed anything = { .prefix = (char *)(uintptr_t)"",
						 .writable = true };
	autofree char *clean = tidy(path);
	const struct allowed *best = wall_stands("host-path-policy") ? NULL : &anything;
	const char *below;

	for (size_t i = 0; clean && h && i < h->n; i++) {
		const struct allowed *a = &h->list[i];

		if (is_in(clean, a->prefix) && (!best || strlen(a->prefix) > strlen(best->prefix)))
			best = a;
	}
	if (!clean || !best)
		return false;
	below = clean + strlen(best->prefix);
	*ret = (struct host_path){ .prefix = *best->prefix ? best->prefix : "/",
				   .below = below[0] && below[1] ? xstrdup(below + 1) : NULL,
				   .writable = best->writable };
	return true;
}

/* The first mount of a volume that wants to write; NULL: all are read-only. malloc'd. */
static char *writer(const struct pod_view *p, const char *volume)
{
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct pod_container_view *c = &p->containers[i];

		for (size_t k = 0; k < c->n_mounts; k++)
			if (str_eq(c->mounts[k].volume, volume) && !c->mounts[k].readonly)
				return xasprintf("spec.%s[%zu].volumeMounts[%zu].readOnly",
						 c->init ? "initContainers" : "containers",
						 c->init ? i : i - p->n_init, k);
	}
	return NULL;
}

/* Why a volume in this directory is not for this Pod. */
static char *refuse_use(const struct host_path *found, const struct pod_view *p, size_t i)
{
	const struct pod_volume_view *v = &p->volumes[i];
	autofree char *field = NULL;

	if (found->writable)
		return NULL;
	if (str_ends(str_or(v->host_type, ""), "OrCreate"))
		return xasprintf("spec.volumes[%zu].hostPath.type: %s: nothing is created in %s, "
				 "which --host-path allows read-only",
				 i, v->host_type, found->prefix);
	field = writer(p, v->name);
	return field ? xasprintf("%s: must be true, because --host-path allows %s read-only", field,
				 found->prefix)
		     : NULL;
}

static char *refuse_one(const struct host_paths *h, const struct pod_view *p, size_t i)
{
	const char *path = str_or(p->volumes[i].host_path, "");
	struct host_path found = { 0 };
	char *bad;

	if (!host_paths_find(h, path, &found))
		return xasprintf("spec.volumes[%zu].hostPath.path: %s is not allowed; the operator "
				 "can allow directories of the host with cay serve --host-path "
				 "DIR:ro or DIR:rw",
				 i, path);
	bad = refuse_use(&found, p, i);
	free(found.below);
	return bad;
}

char *host_paths_refuse(const struct host_paths *h, const struct pod_view *p)
{
	char *bad = NULL;

	for (size_t i = 0; i < p->n_volumes && !bad; i++)
		if (p->volumes[i].type == POD_VOLUME_HOST_PATH)
			bad = refuse_one(h, p, i);
	return bad;
}
