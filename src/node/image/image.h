/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

/*
 * Images of a data directory:
 *
 *   images/names.json      {"names": {canonical name: id}, "images": {id: {digest, source, size,
 *                          layers, config, host}}}
 *   images/<id>/rootfs     an imported one; id is the start of its digest
 *   images/host-<tag>/     the skeleton of `host`, rebuilt when the machine's own files change
 *   images/pause/          an empty root
 *
 * names.json is replaced whole, so readers need no lock; writers take images/lock.
 */
struct image {
	char *id, *digest, *source;
	int64_t size;
	char **layers; /* absolute, top first, NULL-terminated */
	bool host_usr; /* the machine's /usr comes on top */
	/* {"env": [..], "entrypoint": [..], "cmd": [..], "workdir": "", "user": ""}, each optional
	 */
	struct json_doc *config;
};
void image_free(struct image *i);
AUTOPTR(image)

struct images;
must_use struct err *images_open(const char *data_dir, struct images **ret);
void images_free(struct images *im);
AUTOPTR(images)
must_use struct err *images_reload(struct images *im); /* names.json was replaced */
/* ERR_NOT_FOUND: no local image has this name; the text says how to get one. */
must_use struct err *images_find(const struct images *im, const char *name, struct image **ret);

/* "busybox:1.36" → "docker.io/library/busybox:1.36"; NULL: not a name. *ret_digest may be set. */
char *image_canonical(const char *name, char **ret_digest);
char *images_dir(const char *data_dir);

/* The commands of `cay image`: they work whether or not a node runs on the data directory. */
struct image_info {
	char *name, *digest, *source;
	long long size;
};
must_use struct err *image_tag(const char *data_dir, const char *from, const char *to);
must_use struct err *
image_import(const char *data_dir, const char *path, const char *name,
	     void (*progress)(void *arg, const char *what, unsigned long long done), void *arg);
must_use struct err *image_remove(const char *data_dir, const char *name);
must_use struct err *image_list(const char *data_dir, struct image_info **ret, size_t *ret_n);
void image_list_free(struct image_info *list, size_t n);
