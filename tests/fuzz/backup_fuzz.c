/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "server/data/archive_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The bytes as a backup, unpacked below a directory next to which nothing may appear. What is
 * accepted has all that a backup must have.
 */
static char outer[] = "/tmp/cay-backup-fuzz-XXXXXX";

static void clean_up(void)
{
	(void)rmdir(outer);
}

static void setup(void)
{
	static bool done;

	if (done)
		return;
	if (!mkdtemp(outer) || atexit(clean_up))
		abort();
	done = true;
}

static size_t n_entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n - 2;
}

static void unpack(const char *file, const char *to)
{
	const struct data_progress quiet = { 0 };
	struct data_backup_facts facts = { 0 };
	autoclose dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err *e = archive_unpack(file, dir, &quiet, &facts);

	for (const struct archive_file *f = archive_files; !e && f->name; f++)
		if (f->required && !file_exists(dir, f->name))
			abort();
	if (n_entries(to) > 5)
		abort();
	err_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *file = NULL, *to = NULL;
	autoclose fd = memfd_create("backup", MFD_CLOEXEC);

	setup();
	if (fd < 0)
		abort();
	file = xasprintf("/proc/self/fd/%d", fd);
	to = xasprintf("%s/to", outer);
	err_free(fd_write_all(fd, data, len));
	if (mkdir(to, 0700) < 0)
		abort();
	unpack(file, to);
	if (n_entries(outer) != 1)
		abort();
	err_free(file_remove_tree(AT_FDCWD, to));
	return 0;
}
