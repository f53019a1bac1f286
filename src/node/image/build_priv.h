/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>

#include "node/image/image_priv.h"

struct child;
struct timer;

/*
 * One build. Everything is below a work directory, so that whatever ends it leaves nothing else:
 *
 *   images/.import-<random>/apt/    apt's state and caches, and the packages that it fetches
 *   images/.import-<random>/said    what apt-get wrote
 *   images/.import-<random>/member  a part of the package that is being unpacked
 *   images/.import-<random>/root    the root file system
 */
struct build {
	const struct image_build *spec;
	char *name; /* that the image gets */
	char *work;
	int work_fd, root;
	char **debs; /* paths of packages in the order of their file names, NULL-terminated */
	size_t n_debs;
	int64_t epoch; /* no file is newer */
	uint64_t size; /* of all files */

	struct loop *loop;
	struct timer *tick;
	struct child *child;
	int status, signum;        /* of the child that ended last */
	struct err *failed;        /* why the root could not be filled */
	_Atomic uint64_t unpacked; /* bytes so far */
	atomic_bool stopped;       /* by a signal */
};

/* build_recipe.c: the members of a recipe, each checked. ERR_INVALID names the member. */
must_use struct err *recipe_check(const struct json *recipe);
char *recipe_config(const struct json *recipe); /* "config" of an OCI image, as text */
uint32_t recipe_mode(const struct json *file);  /* of an element of "files" */

/* build_apt.c: finds the packages and all that they depend on, and sets debs. */
must_use struct err *build_find_packages(struct build *b);

/*
 * build_deb.c: reads foreign bytes. Unpacks a package below root, with work for files of its own,
 * and runs nothing of it. *ret is its control file.
 */
must_use struct err *deb_unpack(int fd, int work, int root, const struct layer_job *job,
				char **ret);

/* build_root.c: fills the root: packages, what their scripts would have done, and files. Blocks. */
must_use struct err *build_fill_root(struct build *b);
