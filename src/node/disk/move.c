/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "node/disk/disk_priv.h"

/*
 * From the old place into the pool. The copy gets its name when it is complete and on disk, and the
 * original goes after that; so a crash at any moment leaves a whole one, and the next start
 * continues: with the copy from the beginning if it has no name yet, else with the removal.
 *
 * `cp -a` keeps owners, modes, times, extended attributes, hard links and holes, and follows no
 * links. Nobody writes to either place meanwhile.
 */
static struct err *sync_dir(const char *path)
{
	autoclose fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || syncfs(fd) < 0 ? err_sys(errno, "sync %s", path) : NULL;
}

static struct err *copy(const char *from, const char *to)
{
	autofree char *inside = xasprintf("%s/.", from);
	char *const argv[] = { (char[]){ "cp" }, (char[]){ "-a" },      (char[]){ "--" },
			       inside,           (char *)(uintptr_t)to, NULL };

	return program_run("/bin/cp", argv);
}

struct place {
	char *from, *to, *new;
};

static struct err *copy_in(const struct diskpool *d, const struct place *p, const char *dir,
			   int64_t limit)
{
	const struct diskpool_ops *ops = diskpool_ops(d);
	struct err *e = ops->remove(p->new); /* of a copy that was interrupted */

	if (!e)
		e = ops->make(p->new, 0);
	if (!e)
		e = copy(p->from, p->new);
	if (!e)
		e = sync_dir(dir);
	if (!e && rename(p->new, p->to) < 0)
		e = err_sys(errno, "rename %s", p->new);
	if (!e)
		e = path_limit(ops, p->to, limit);
	if (!e)
		return sync_dir(dir);
	err_free(ops->give_back(p->new)); /* a part of a copy would keep the pool full */
	return e;
}

struct err *diskpool_move(const struct diskpool *d, enum instance_dir dir, const char *name,
			  int64_t limit)
{
	autofree char *old = diskpool_old_dir(d, dir), *now = diskpool_dir(d, dir);
	autofree char *from = xasprintf("%s/%s", str_or(old, ""), name);
	autofree char *to = xasprintf("%s/%s", now, name), *new = xasprintf("%s/.%s", now, name);
	const struct place p = { from, to, new };
	struct err *e = NULL;

	if (!old || !file_exists(AT_FDCWD, from))
		return NULL;
	log_info("moving a directory into the disk pool", KV("from", from), KV("to", to));
	if (!file_exists(AT_FDCWD, to))
		e = copy_in(d, &p, now, limit);
	if (!e)
		e = disk_plain.remove(from);
	if (e)
		return err_wrap(e, "move %s into the disk pool", from);
	(void)rmdir(old); /* if that was the last */
	log_info("moved a directory into the disk pool", KV("to", to));
	return NULL;
}
