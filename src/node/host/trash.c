/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/trash.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "loop/jobs.h"

static void remove_tree(void *path)
{
	struct err *e = file_remove_tree(AT_FDCWD, path);

	if (e)
		log_warn("cannot remove a directory, leaving it to the next start", KV("err", e));
	err_free(e);
}

void trash_remove(struct jobs *jobs, char *path)
{
	jobs_run(jobs, remove_tree, free, path);
}
