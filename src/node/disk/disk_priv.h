/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/disk/disk.h"

/*
 * image.c: a btrfs in a file. Two mounts belong to it, one in the other: <data_dir>/pool is a bind
 * mount of itself that is shared, and <data_dir>/pool/fs is the file system. Mount namespaces that
 * other programs make meanwhile hold copies of both; as the outer one is shared, an unmount of the
 * inner one reaches them, and the loop device goes with the last.
 */
char *pool_image_file(const char *data_dir);
char *pool_image_mount(const char *data_dir); /* where it is mounted */
char *pool_image_outer(const char *data_dir); /* the mount around that */
bool pool_image_exists(const char *data_dir); /* one was made */
bool pool_image_mounted(const char *data_dir);
/* ERR_UNSUPPORTED: what is missing to make one. */
must_use struct err *pool_image_possible(const char *data_dir);
/* ERR_UNSUPPORTED: this host cannot make one; the text says what is missing. */
must_use struct err *pool_image_create(const char *data_dir, int64_t size);
must_use struct err *pool_image_attach(const char *data_dir); /* mounts it unless it is mounted */
void pool_image_detach(const char *data_dir);
/* The loop device of the image, "/dev/loop3", or NULL. malloc'd. */
char *pool_image_loop(const char *data_dir);

bool pool_is_mount(const char *path);
char *pool_find_program(const char *name); /* its path, malloc'd; NULL: it is not installed */
/* A loop device that frees itself with its last user: *ret_fd is one. ret_name is malloc'd. */
must_use struct err *pool_attach_loop(const char *file, char **ret_name, int *ret_fd);

/* Runs a program without input or output and waits for it. ERR_UNSUPPORTED: it failed. */
must_use struct err *program_run(const char *program, char *const *argv);

/* disk.c: as ops->limit(), for a path that need not exist. */
must_use struct err *path_limit(const struct diskpool_ops *ops, const char *path, int64_t limit);

/* btrfs.c: turns quotas on where they are off, and tries them. */
must_use struct err *btrfs_prepare(const char *dir);
