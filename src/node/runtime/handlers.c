/* SPDX-License-Identifier: Apache-2.0 */
#include "node/runtime/handlers.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/str.h"
#include "node/launch/plan.h"

/*
 * The table of handlers. A program is looked for when a Pod needs it, so that one that was
 * installed is found without a restart; what was found out holds for a moment, so that many Pods at
 * once do not keep the loop with it.
 */
enum {
	HANDLERS_MAX = 32,
	ARGS_MAX = 16,
	NAME_MAX_LEN = 63,
	LOOK_US = 2 * 1000 * 1000, /* that an answer holds */
};

struct handler {
	char *name, *program;
	char *args[ARGS_MAX + 1];
	const char *install;
	char *path;        /* where it was found; NULL: nowhere */
	usec looked_until; /* until then that holds; 0: nobody has looked */
};

struct handlers {
	struct handler of[HANDLERS_MAX];
	const char *names[HANDLERS_MAX + 2]; /* "native" first */
	size_t n;
};

/* In a fixed order, which is also that of `cay doctor`. */
static const struct {
	const char *name, *program, *install;
} builtin[] = {
	{ "crun", "crun", "apt-get install crun" },
	{ "runc", "runc", "apt-get install runc" },
	{ "runsc", "runsc",
	  "apt-get install runsc (of Debian 13 or later), or get it from gvisor.dev/docs/user_guide/install" },
	{ "kata", "kata-runtime",
	  "install Kata Containers, and name its OCI program: --runtimes kata=PROGRAM" },
};

static const char other_install[] = "install it, or correct --runtimes";

/* Command lines differ in what is beyond those that all have in common ("oci"). */
static const char *style_of(const char *program)
{
	static const char *const known[] = { "crun", "runc", "runsc" };
	const char *slash = strrchr(program, '/'), *base = slash ? slash + 1 : program;

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_starts(base, known[i]))
			return known[i];
	return "oci";
}

static struct handler *find(const struct handlers *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (str_eq(h->of[i].name, name))
			return (struct handler *)&h->of[i];
	return NULL;
}

static void drop_program(struct handler *r)
{
	free(take(r->program));
	for (size_t i = 0; i < ARRAY_LEN(r->args); i++)
		free(take(r->args[i]));
}

static struct handler *add(struct handlers *h, const char *name)
{
	struct handler *r = &h->of[h->n++];

	r->name = xstrdup(name);
	h->names[h->n] = r->name;
	return r;
}

static bool good_name(struct span name)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

	if (!name.len || name.len > NAME_MAX_LEN || *name.p == '-' || name.p[name.len - 1] == '-')
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!strchr(fine, name.p[i]))
			return false;
	return true;
}

/* The program and its arguments, after the "=". */
static struct err *set_program(struct handler *r, struct span text)
{
	struct span rest, program = span_cut(text, ',', &rest);
	size_t n = 0;

	if (!program.len)
		return err_new(ERR_INVALID, "runtime \"%s\" has no program; write %s=PROGRAM",
			       r->name, r->name);
	r->program = xstrndup(program.p, program.len);
	while (rest.p) {
		struct span arg = span_cut(rest, ',', &rest);

		if (n == ARGS_MAX)
			return err_new(ERR_INVALID, "runtime \"%s\" has more than %d arguments",
				       r->name, ARGS_MAX);
		r->args[n++] = xstrndup(arg.p, arg.len);
	}
	return NULL;
}

static struct err *configure(struct handlers *h, struct span entry)
{
	struct span rest, name = span_cut(entry, '=', &rest);
	autofree char *text = xstrndup(name.p, name.len);
	struct handler *r;

	if (!good_name(name) || !rest.p)
		return err_new(ERR_INVALID, "\"%.*s\" is not NAME=PROGRAM[,ARG...]", (int)entry.len,
			       entry.p);
	if (str_eq(text, "native"))
		return err_new(ERR_INVALID, "runtime \"native\" is built in and has no program");
	r = find(h, text);
	if (!r && h->n == HANDLERS_MAX)
		return err_new(ERR_INVALID, "there are more than %d runtimes", HANDLERS_MAX);
	if (!r) {
		r = add(h, text);
		r->install = other_install;
	}
	drop_program(r);
	return set_program(r, rest);
}

struct err *handlers_new(const char *text, struct handlers **ret)
{
	autoptr(handlers) h = xnew(struct handlers);
	struct span rest = SPAN(str_or(text, ""));

	h->names[0] = "native";
	for (size_t i = 0; i < ARRAY_LEN(builtin); i++) {
		struct handler *r = add(h, builtin[i].name);

		r->program = xstrdup(builtin[i].program);
		r->install = builtin[i].install;
	}
	while (rest.p) {
		struct span entry = span_cut(rest, ' ', &rest);
		struct err *e = entry.len ? configure(h, entry) : NULL;

		if (e)
			return e;
	}
	*ret = take(h);
	return NULL;
}

void handlers_free(struct handlers *h)
{
	for (size_t i = 0; h && i < h->n; i++) {
		free(h->of[i].name);
		free(h->of[i].path);
		drop_program(&h->of[i]);
	}
	free(h);
}

const char *const *handlers_names(const struct handlers *h)
{
	return h->names;
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Without links: the slot shows the runtime only the parts of the host that it needs. malloc'd, or
 * NULL. */
static char *look_for(const char *program)
{
	const char *dirs = getenv("PATH");
	struct span rest = SPAN(str_or(dirs, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"));

	if (strchr(program, '/'))
		return *program == '/' && is_program(program) ? realpath(program, NULL) : NULL;
	while (rest.p) {
		struct span dir = span_cut(rest, ':', &rest);
		autofree char *path = xasprintf("%.*s/%s", (int)dir.len, dir.p, program);

		if (*path == '/' && dir.len && is_program(path))
			return realpath(path, NULL);
	}
	return NULL;
}

static const char *path_of(struct handler *r, usec now)
{
	if (now < r->looked_until)
		return r->path;
	free(r->path);
	r->path = look_for(r->program);
	r->looked_until = now + LOOK_US;
	return r->path;
}

struct err *handlers_find(struct handlers *h, const char *name, usec now, struct arena *a,
			  struct plan_oci *ret)
{
	struct handler *r = h ? find(h, name) : NULL;
	const char *path = r ? path_of(r, now) : NULL;
	size_t n = 0;

	*ret = (struct plan_oci){ 0 };
	if (str_eq(name, "native"))
		return NULL;
	if (!r)
		return err_new(
			ERR_UNAVAILABLE,
			"this node has no runtime \"%s\"; name its program with --runtimes %s=PROGRAM",
			name, name);
	if (!path)
		return err_new(
			ERR_UNAVAILABLE,
			"program %s of runtime \"%s\" is not installed; `cay doctor` says how",
			r->program, name);
	ret->program = arena_strdup(a, path);
	ret->style = style_of(r->program);
	while (r->args[n])
		n++;
	ret->args = arena_new_n(a, const char *, n + 1);
	for (size_t i = 0; i < n; i++)
		ret->args[i] = arena_strdup(a, r->args[i]);
	return NULL;
}

const char *handlers_lacks(const struct handlers *h, const char *name, size_t n_containers)
{
	const struct handler *r = h ? find(h, name) : NULL;

	if (!r || !str_eq(style_of(r->program), "runsc") || n_containers < 2)
		return NULL;
	return "each container has a kernel of its own, so they share the network and volumes, but no "
	       "System V or POSIX IPC";
}

bool handlers_look(const struct handlers *h, size_t i, struct handler_look *ret)
{
	if (i >= h->n)
		return false;
	*ret = (struct handler_look){ .name = h->of[i].name,
				      .program = h->of[i].program,
				      .path = look_for(h->of[i].program),
				      .install = h->of[i].install };
	return true;
}
