/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/image/image_priv.h"

/*
 * An archive made by somebody else. Next to the root is a directory that no entry may touch:
 * whatever the bytes say, it must be empty afterwards.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct layer_job job = { .max_bytes = 1 << 20, .max_entries = 200, .whiteouts = true };
	char base[] = "/tmp/cay-layer-XXXXXX";
	autofree char *root = NULL, *beside = NULL;
	struct layer_done done;
	autoclose fd = -1;

	if (!mkdtemp(base))
		abort();
	root = xasprintf("%s/root", base);
	beside = xasprintf("%s/beside", base);
	if (mkdir(root, 0755) < 0 || mkdir(beside, 0755) < 0)
		abort();
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err_free(layer_unpack(&(struct tar_from){ .bytes = data, .len = len }, fd, &job, &done));
	if (rmdir(beside) < 0)
		abort(); /* something was put there */
	err_free(file_remove_tree(AT_FDCWD, base));
	return 0;
}
