/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "node/disk/disk_priv.h"

/*
 * An image that is thrown away, for finding out what sandboxes will be able to do in one. It is
 * made as a data directory's own is, by the same steps, and is sparse: next to nothing is written.
 */
enum {
	TRIAL_MIB = 256, /* the least that image.c makes */
};

struct err *trial_disk_mount(const char *dir, char **ret)
{
	autofree char *at = pool_image_mount(dir);
	struct err *e = pool_image_create(dir, (int64_t)TRIAL_MIB << 20);

	if (!e)
		e = pool_image_attach(dir);
	if (!e)
		e = btrfs_prepare(at);
	if (e) {
		trial_disk_unmount(dir);
		return e;
	}
	*ret = take(at);
	return NULL;
}

void trial_disk_unmount(const char *dir)
{
	autofree char *file = pool_image_file(dir);

	pool_image_detach(dir);
	(void)unlink(file);
}
