/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/wall.h"
#include "json/json.h"
#include "node/host/numbers.h"
#include "node/launch/oci_priv.h"

/*
 * The config.json of an OCI runtime: the same container that a slot would become by itself. All
 * that the slot has and keeps is left out of it (control groups, network, IPC and UTS namespaces,
 * resource limits, the root with its volumes), so that it does not differ from one runtime to the
 * next. The only string of a user in it is the host name.
 */
static struct json *member(struct json_doc *d, struct json *list)
{
	struct json *o = json_obj(d);

	json_push(d, list, o);
	return o;
}

struct oci_mount {
	const char *type, *from, *to;
	const char *options[8];
};

static const struct oci_mount for_all[] = {
	{ "proc", "proc", "/proc", { "nosuid", "nodev", "noexec" } },
};
/* The devices that every sandbox has. Some versions of crun lose what is mounted below. */
static const struct oci_mount same_kernel[] = {
	{ "bind", "/dev", "/dev", { "rbind", "nosuid", "noexec" } },
	{ "bind", "/dev/pts", "/dev/pts", { "bind", "nosuid", "noexec" } },
};
/* A kernel of its own has devices of its own. */
static const struct oci_mount own_kernel[] = {
	{ "tmpfs", "tmpfs", "/dev/shm", { "nosuid", "nodev", "noexec", "mode=1777", "size=64m" } },
	{ "bind",
	  "/dev/termination-log",
	  "/dev/termination-log",
	  { "bind", "nosuid", "nodev", "noexec" } },
};
static const struct oci_mount kit[] = {
	{ "bind", OCI_KIT, OCI_KIT_INSIDE, { "bind", "ro", "nosuid", "nodev" } },
};

static void add_mounts(struct json_doc *d, const struct oci_mount *mounts, size_t n)
{
	struct json *list = json_need_arr(d, json_root(d), "mounts");

	for (size_t i = 0; i < n; i++) {
		struct json *m = member(d, list), *options;

		json_set_str(d, m, "destination", mounts[i].to);
		json_set_str(d, m, "type", mounts[i].type);
		json_set_str(d, m, "source", mounts[i].from);
		options = json_need_arr(d, m, "options");
		for (const char *const *o = mounts[i].options; *o; o++)
			json_push_str(d, options, *o);
	}
}

/* Others have written there, too: what a kernel of its own keeps of the root, it must not keep of
 * these. */
static void add_volumes(struct json_doc *d, const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_mounts; i++) {
		const struct plan_mount *m = &plan->mounts[i];
		autofree char *from = xasprintf(OCI_VOLUME, i);
		const struct oci_mount one = { "bind",
					       from,
					       m->to,
					       { "bind", m->readonly ? "ro" : "rw", "nosuid",
						 "nodev" } };

		add_mounts(d, &one, 1);
	}
}

static void add_capabilities(struct json_doc *d, struct json *process)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };
	struct json *caps = json_need_obj(d, process, "capabilities");

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct json *list = json_need_arr(d, caps, sets[i]);
		const char *name;

		for (size_t k = 0; (name = plan_capability_at(k)); k++) {
			autofree char *full = xasprintf("CAP_%s", name);

			json_push_str(d, list, full);
		}
	}
}

/* Runtimes in Go raise theirs, and hand it on; a kernel of its own never had ours. */
static void add_files_limit(struct json_doc *d, struct json *env)
{
	autofree char *text = NULL;
	struct rlimit files = { 0 };

	(void)getrlimit(RLIMIT_NOFILE, &files);
	text = xasprintf("FILES=%llu", (unsigned long long)files.rlim_cur);
	json_push_str(d, env, text);
}

static void add_process(struct json_doc *d, const struct slot *s, const struct oci_style *style)
{
	struct json *process = json_need_obj(d, json_root(d), "process");
	struct json *user = json_need_obj(d, process, "user"), *env;

	json_set_bool(d, process, "terminal", false);
	json_set_int(d, user, "uid", 0);
	json_set_int(d, user, "gid", 0);
	json_set_str(d, process, "cwd", "/");
	json_push_str(d, json_need_arr(d, process, "args"), OCI_KIT_INSIDE "/init");
	env = json_need_arr(d, process, "env");
	if (s->l->log_limit) {
		autofree char *max = xasprintf("LOG_MAX=%lld", (long long)s->l->log_limit);

		json_push_str(d, env, max);
	}
	add_files_limit(d, env);
	if (wall_stands("seccomp"))
		json_push_str(d, env, "FILTER=" OCI_KIT_INSIDE "/filter");
	if (style->own_kernel)
		json_push_str(d, env, "HANDED=1");
	json_set_bool(d, process, "noNewPrivileges", wall_stands("no-new-privileges"));
	add_capabilities(d, process);
}

static void add_map(struct json_doc *d, struct json *linux_, const char *name, uint32_t base)
{
	struct json *m = member(d, json_need_arr(d, linux_, name));

	json_set_int(d, m, "containerID", 0);
	json_set_int(d, m, "hostID", base);
	json_set_int(d, m, "size", ID_RANGE);
}

static void add_namespace(struct json_doc *d, struct json *list, const char *type, const char *path)
{
	struct json *n = member(d, list);

	json_set_str(d, n, "type", type);
	if (path)
		json_set_str(d, n, "path", path);
}

static void add_linux(struct json_doc *d, const struct slot *s, const struct oci_style *style)
{
	struct json *linux_ = json_need_obj(d, json_root(d), "linux");
	struct json *list = json_need_arr(d, linux_, "namespaces"), *masked;
	const char *name;

	add_namespace(d, list, "pid", NULL);
	add_namespace(d, list, "mount", NULL);
	add_namespace(d, list, "user", style->own_kernel ? NULL : OCI_USERNS);
	if (style->own_kernel)
		add_namespace(d, list, "uts", NULL);
	if (style->own_kernel || style->maps_twice) {
		add_map(d, linux_, "uidMappings", s->spec->base);
		add_map(d, linux_, "gidMappings", s->spec->base);
	}
	masked = json_need_arr(d, linux_, "maskedPaths");
	for (size_t i = 0; (name = root_masked(i)); i++) {
		autofree char *path = xasprintf("/proc/%s", name);

		json_push_str(d, masked, path);
	}
	if (wall_stands("proc-read-only"))
		json_push_str(d, json_need_arr(d, linux_, "readonlyPaths"), "/proc/sys");
}

struct err *oci_config_write(const struct slot *s, const struct plan *plan,
			     const struct oci_style *style, const char *path)
{
	autoptr(json_doc) d = json_doc_new();
	autobuf text = { 0 };
	struct json *root;

	json_set_root(d, json_obj(d));
	json_set_str(d, json_root(d), "ociVersion", "1.0.2");
	root = json_need_obj(d, json_root(d), "root");
	json_set_str(d, root, "path", OCI_ROOT);
	json_set_bool(d, root, "readonly", plan->readonly && wall_stands("root-read-only"));
	if (style->own_kernel && plan->hostname)
		json_set_str(d, json_root(d), "hostname", plan->hostname);
	add_process(d, s, style);
	add_mounts(d, for_all, ARRAY_LEN(for_all));
	if (style->own_kernel) {
		add_mounts(d, own_kernel, ARRAY_LEN(own_kernel));
		add_volumes(d, plan);
	} else {
		add_mounts(d, same_kernel, ARRAY_LEN(same_kernel));
	}
	add_mounts(d, kit, ARRAY_LEN(kit));
	add_linux(d, s, style);
	json_write(json_root(d), &text);
	return oci_put(path, buf_head(&text), text.len, 0600);
}
