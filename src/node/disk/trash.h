/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/host/instance.h"

struct diskpool;
struct jobs;

/*
 * Removes a file or a directory with all that is in it, as a job. What cannot be removed is logged
 * and left to the next start, which removes whatever has no owner. Takes path over.
 */
void trash_remove(struct jobs *jobs, char *path);
/* The same for a directory of the disk pool, wherever it is. The disk must outlive the jobs. */
void trash_remove_disk(struct jobs *jobs, const struct diskpool *d, enum instance_dir dir,
		       const char *name);
