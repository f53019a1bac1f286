/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/image/image_priv.h"

/*
 * The JSON of somebody else's image: the same bytes as the manifest of a docker-archive, as the
 * index of an OCI layout, and as a config. Whatever they say, no file outside the tree is opened.
 */
static void put(int dir, const char *name, const void *data, size_t len)
{
	autoclose fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		abort();
	err_free(fd_write_all(fd, data, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	autofree char *text = xmemdup(data, len);
	char base[] = "/tmp/cay-manifest-XXXXXX";
	struct draft *d = NULL, *one = xnew(struct draft);
	autoclose fd = -1;

	if (!mkdtemp(base))
		abort();
	fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(fd, "manifest.json", data, len);
	put(fd, "index.json", data, len);
	put(fd, "oci-layout", layout, sizeof(layout) - 1);
	err_free(docker_read(fd, &d));
	draft_free(take(d));
	err_free(oci_read(fd, &d));
	draft_free(d);
	one->layers = xnew_n(struct draft_layer, 1);
	one->n_layers = 1;
	err_free(config_read(text, len, one));
	draft_free(one);
	err_free(file_remove_tree(AT_FDCWD, base));
	return 0;
}
