/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>

#include "base/file.h"

/*
 * Runs a fuzz target over saved inputs: fuzz_json DIR. Finally it prints their number on standard
 * output. Having no input at all is a failure, so that a lost corpus is noticed.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
	LARGEST = 16 * 1024 * 1024,
};

static struct err *replay(int dirfd, const char *name)
{
	autofree char *data = NULL;
	uint8_t *exact;
	struct err *e;
	size_t len;

	e = file_read(dirfd, name, LARGEST, &data, &len);
	if (e)
		return e;
	/* A block of exactly this size, so that a read beyond it is caught. */
	exact = xmalloc(len);
	memcpy(exact, data, len);
	(void)LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return NULL;
}

static struct err *replay_all(DIR *dir, unsigned *n_inputs)
{
	const struct dirent *d;
	struct err *e;

	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		e = replay(dirfd(dir), d->d_name);
		if (e)
			return e;
		(*n_inputs)++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	unsigned n_inputs = 0;
	struct err *e;

	if (!dir) {
		fprintf(stderr, "usage: %s DIRECTORY-OF-INPUTS\n", argv[0]);
		return 2;
	}
	e = replay_all(dir, &n_inputs);
	closedir(dir);
	if (e)
		fprintf(stderr, "%s\n", err_text(e));
	err_free(e);
	printf("%u inputs\n", n_inputs);
	return e || !n_inputs ? 1 : 0;
}
