/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/sandbox/pack_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The bytes as an archive from a sandbox, in pieces whose size the first byte says, written below
 * a directory next to which nothing may appear.
 */
static char outer[] = "/tmp/cay-tar-fuzz-XXXXXX";

static void clean_up(void)
{
	(void)rmdir(outer);
}

static void setup(void)
{
	static bool done;

	if (done)
		return;
	if (!mkdtemp(outer) || !freopen("/dev/null", "w", stderr) || atexit(clean_up))
		abort();
	done = true;
}

static void nothing_else(void)
{
	DIR *d = opendir(outer);
	size_t n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	(void)closedir(d);
	if (n != 3) /* . .. to */
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *to = NULL;
	struct unpack *u = NULL;
	struct tar_reader *t;
	struct err *e;
	size_t step;

	setup();
	if (!len)
		return 0;
	to = xasprintf("%s/to", outer);
	if (mkdir(to, 0700) < 0)
		abort();
	e = unpack_open(
		&(struct unpack_spec){ .dir = to, .from = "d", .name = "d", .recursive = true },
		&u);
	if (e)
		abort();
	t = tar_reader_new(&unpack_events, u);
	step = (size_t)data[0] * 4 + 1;
	for (size_t at = 1; !e && at < len; at += step)
		e = tar_feed(t, (const char *)data + at, MIN(step, len - at));
	err_free(e);
	tar_reader_free(t);
	unpack_free(u);
	nothing_else();
	err_free(file_remove_tree(AT_FDCWD, to));
	return 0;
}
