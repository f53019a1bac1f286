/* SPDX-License-Identifier: Apache-2.0 */
#include "node/disk/trash.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "loop/jobs.h"
#include "node/disk/disk.h"

static void tell(struct err *e)
{
	if (e)
		log_warn("cannot remove a directory, leaving it to the next start", KV("err", e));
	err_free(e);
}

static void remove_tree(void *path)
{
	tell(file_remove_tree(AT_FDCWD, path));
}

void trash_remove(struct jobs *jobs, char *path)
{
	jobs_run(jobs, remove_tree, free, path);
}

struct trash {
	const struct diskpool *disk;
	enum instance_dir dir;
	char *name;
};

static void remove_disk(void *arg)
{
	struct trash *t = arg;

	tell(diskpool_remove(t->disk, t->dir, t->name));
}

static void trash_free(void *arg)
{
	struct trash *t = arg;

	free(t->name);
	free(t);
}

void trash_remove_disk(struct jobs *jobs, const struct diskpool *d, enum instance_dir dir,
		       const char *name)
{
	struct trash *t = xnew(struct trash);

	*t = (struct trash){ .disk = d, .dir = dir, .name = xstrdup(name) };
	jobs_run(jobs, remove_disk, trash_free, t);
}
