/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/cgroup_wait.h"

#include <sys/inotify.h>

#include "loop/loop.h"
#include "node/host/cgroup.h"
#include "node/host/inotify.h"

enum {
	FIRST_MS = 5,
	LONGEST_MS = 1000,
};

struct cgroup_wait {
	struct cgroup_wait_spec spec;
	char *name;
	struct inotify_watch *events;
	struct timer *timer;
};

static void tell(void *arg)
{
	struct cgroup_wait *w = arg;

	inotify_del(take(w->events));
	timer_clear(w->timer);
	w->spec.again(w->spec.arg);
}

static void on_event(void *arg, unused uint32_t what)
{
	struct cgroup_wait *w = arg;

	if (!cgroup_populated(w->spec.cgroups, w->name))
		tell(w);
}

struct cgroup_wait *cgroup_wait_new(const struct cgroup_wait_spec *spec, const char *name,
				    unsigned tries)
{
	struct cgroup_wait *w = xnew(struct cgroup_wait);
	autofree char *path = cgroup_events_path(spec->cgroups, name);
	uint64_t ms = tries < 8 ? (uint64_t)FIRST_MS << tries : LONGEST_MS;

	w->spec = *spec;
	w->name = xstrdup(name);
	w->timer = timer_new(spec->loop, tell, w);
	if (path)
		w->events = inotify_add(spec->inotify, path, IN_MODIFY, on_event, w);
	/* Checked after the watch was set: a change in between is either seen here or reported. */
	if (inotify_is_prompt(w->events) && cgroup_populated(spec->cgroups, name))
		ms = LONGEST_MS;
	timer_set(w->timer, ms);
	return w;
}

void cgroup_wait_free(struct cgroup_wait *w)
{
	if (!w)
		return;
	inotify_del(w->events);
	timer_free(w->timer);
	free(w->name);
	free(w);
}
