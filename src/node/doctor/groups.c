/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stddef.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/cgroup.h"
#include "node/host/instance.h"
#include "node/host/scope.h"

/*
 * The doctor has one place for control groups, found as a node finds its own: under systemd in a
 * scope, which ends with the doctor, and otherwise at the root of the hierarchy, named after its
 * process, so that the next doctor removes what a killed one has left.
 */
#define NAME "doctor-"

enum {
	END_MS = 1000, /* for what was killed to end */
	STEP_MS = 10,
};

static void remove_group(void *arg, const char *name, const char *path unused)
{
	const struct cgroups *groups = arg;

	cgroup_kill(groups, name);
	for (int i = 0; i < END_MS / STEP_MS; i++) {
		autoptr(err) e = cgroup_remove(groups, name);

		if (!err_is(e, ERR_UNAVAILABLE))
			return;
		(void)poll(NULL, 0, STEP_MS);
	}
}

void doctor_groups_clean(const struct doctor *d)
{
	if (!d->groups)
		return;
	cgroups_each(d->groups, remove_group, d->groups);
	cgroups_remove_parent(d->groups);
}

/* Where one hierarchy refused the group, others may have it. */
static void remove_halves(const char *parent)
{
	autoptr(cgroups) groups = NULL;
	struct err *e = cgroups_open(parent, false, &groups);

	if (!e)
		cgroups_remove_parent(groups);
	err_free(e);
}

void doctor_groups_open(struct doctor *d)
{
	autofree char *id = xasprintf(NAME "%d", (int)getpid());

	if (geteuid()) {
		d->no_groups = err_new(ERR_FORBIDDEN, "not running as root");
		return;
	}
	cgroups_sweep("cay-" NAME);
	d->no_groups = scope_open(id, "cay doctor", -1, &d->scope);
	if (d->no_groups)
		return;
	d->no_groups = cgroups_open(scope_path(d->scope), true, &d->groups);
	if (d->no_groups)
		remove_halves(scope_path(d->scope));
}

void doctor_groups_done(struct doctor *d)
{
	doctor_groups_clean(d);
	cgroups_free(d->groups);
	err_free(d->no_groups);
	scope_free(d->scope);
}

/* Whether sandboxes of an earlier start keep the instance of this data directory out of a scope. */
static bool has_none(const struct doctor *d)
{
	autoptr(instance) inst = NULL;

	err_free(instance_open(d->data_dir, NULL, false, &inst));
	return inst && scope_is_missing(inst->id);
}

/* A group outside of a scope works too, until systemd does something with its controllers. */
void check_scope(struct doctor *d)
{
	const char *refusal = d->scope ? scope_refusal(d->scope) : NULL;

	if (!d->scope)
		return; /* check_cgroups() says why */
	if (!refusal && has_none(d))
		doctor_say(d, "scope", VERDICT_WARN,
			   xstrdup("sandboxes still run whose control groups are outside of what "
				   "systemd knows, from a start that got no scope; new ones join "
				   "them there"),
			   xstrdup("cay stop --sandboxes, then start cay again: the next start "
				   "gets a scope"));
	else if (refusal)
		doctor_say(
			d, "scope", VERDICT_WARN,
			xasprintf("systemd manages the control groups of this host and gives no "
				  "scope, so those of sandboxes are outside of what it knows: %s",
				  refusal),
			xstrdup("install systemd with /usr/bin/systemd-run, see what `systemd-run "
				"--scope true` says, then stop the sandboxes and restart cay"));
	else
		doctor_say(
			d, "scope", VERDICT_OK,
			xstrdup(scope_is_systemds(d->scope)
					? "the control groups of sandboxes are in a scope of systemd"
					: "systemd does not manage control groups here"),
			NULL);
}

/* A controller counts if a group can be made and shows the limit that it was given. */
static struct err *try_limits(const struct cgroups *groups, struct cgroup_limits *ret)
{
	const struct cgroup_limits want = { .memory = 64 << 20, .cpu_milli = 500, .pids = 64 };
	struct err *e = cgroup_make(groups, "try"), *left;

	if (!e)
		e = cgroup_limit(groups, "try", &want);
	if (!e)
		e = cgroup_read_limits(groups, "try", ret);
	left = cgroup_remove(groups, "try");
	if (!e)
		return left;
	err_free(left);
	return e;
}

void check_cgroups(struct doctor *d)
{
	static const struct {
		size_t at;
		const char *name;
	} rows[] = { { offsetof(struct cgroup_limits, memory), "memory" },
		     { offsetof(struct cgroup_limits, cpu_milli), "cpu" },
		     { offsetof(struct cgroup_limits, pids), "pids" } };
	struct cgroup_limits got = { 0 };
	struct err *e = d->groups ? try_limits(d->groups, &got) : err_copy(d->no_groups);

	doctor_say(d, "control-groups", e ? VERDICT_FAIL : VERDICT_OK,
		   xstrdup(e ? err_text(e) : "control groups can be made"),
		   xstrdup("run as root, with the control group file system mounted and writable "
			   "at /sys/fs/cgroup"));
	if (e) {
		err_free(e);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool have = *(const int64_t *)(const void *)((const char *)&got + rows[i].at);
		autofree char *name = xasprintf("cgroup-%s", rows[i].name);

		doctor_say(d, name, have ? VERDICT_OK : VERDICT_WARN,
			   xasprintf("controller %s %s", rows[i].name,
				     have ? "limits a group" : "is missing"),
			   xasprintf("sandboxes run without limits of %s; %s", rows[i].name,
				     str_or(cgroups_obstacle(d->groups),
					    "enable the controller in the kernel or in "
					    "cgroup.subtree_control")));
	}
}
