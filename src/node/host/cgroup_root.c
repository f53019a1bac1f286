/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/cgroup_root.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

enum {
	/* A process that forks while it is moved leaves a child behind, for the next round. One
	 * that is exiting cannot be moved and is listed until it gets a processor to finish on,
	 * which takes a while on a busy machine. */
	PATIENCE_MS = 5000,
	ROUND_MS = 1,
	PROCS_MAX = 4 << 20,
};

/* What one round found in the group. */
struct found {
	size_t n_ours;
	/* Outside our process namespace: listed as 0, which means ourselves where it is written. */
	size_t n_unseen;
};

/* pids is cut up. */
static struct err *move_all(char *pids, const char *target, struct found *ret)
{
	char *save = NULL;

	*ret = (struct found){ 0 };
	for (char *pid = strtok_r(pids, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save)) {
		struct err *e;

		if (str_eq(pid, "0")) {
			ret->n_unseen++;
			continue;
		}
		ret->n_ours++;
		e = file_write(AT_FDCWD, target, pid);
		if (e && err_errno(e) != ESRCH) /* it has ended meanwhile */
			return err_wrap(e, "move process %s", pid);
		err_free(e);
	}
	return NULL;
}

struct err *cgroup_root_clear(const char *mount)
{
	autofree char *type = xasprintf("%s/cgroup.type", mount);
	autofree char *procs = xasprintf("%s/cgroup.procs", mount);
	autofree char *init = xasprintf("%s/init", mount);
	autofree char *target = xasprintf("%s/cgroup.procs", init);
	usec deadline = clock_mono() + PATIENCE_MS * 1000LL;
	struct found found = { 0 };

	if (!file_exists(AT_FDCWD, type)) /* the root of all has none */
		return NULL;
	do {
		autofree char *pids = NULL;
		struct err *e = file_read(AT_FDCWD, procs, PROCS_MAX, &pids, NULL);

		if (!e && !*pids)
			return NULL;
		if (!e && mkdir(init, 0755) < 0 && errno != EEXIST)
			e = err_sys(errno, "create control group %s", init);
		if (!e)
			e = move_all(pids, target, &found);
		if (e)
			return err_wrap(e, "empty control group %s", mount);
		(void)poll(NULL, 0, ROUND_MS);
	} while (found.n_ours && clock_mono() < deadline);
	if (found.n_unseen)
		return err_new(
			ERR_UNAVAILABLE,
			"control group %s has %zu processes from outside the container; give "
			"the container a control group of its own",
			mount, found.n_unseen);
	return err_new(ERR_UNAVAILABLE, "processes keep appearing in control group %s", mount);
}
