/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/image/build_priv.h"

/*
 * A Debian package made by somebody else. Next to the root is a directory that nothing in it may
 * touch: whatever the bytes say, it must be empty afterwards.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct layer_job job = { .max_bytes = 1 << 20,
				       .max_entries = 200,
				       .keep_links = true };
	char base[] = "/tmp/cay-deb-XXXXXX";
	autofree char *control = NULL;
	autoclose fd = memfd_create("deb", MFD_CLOEXEC), at = -1, root = -1, work = -1;

	if (!mkdtemp(base))
		abort();
	at = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(at, "root", 0755) < 0 || mkdirat(at, "work", 0755) < 0 ||
	    mkdirat(at, "beside", 0755) < 0 || write(fd, data, len) != (ssize_t)len ||
	    lseek(fd, 0, SEEK_SET) < 0)
		abort();
	root = openat(at, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	work = openat(at, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (symlinkat("/beside", root, "bin") < 0)
		abort();
	err_free(deb_unpack(fd, work, root, &job, &control));
	if (unlinkat(at, "beside", AT_REMOVEDIR) < 0)
		abort(); /* something was put there */
	err_free(file_remove_tree(AT_FDCWD, base));
	return 0;
}
