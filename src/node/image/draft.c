/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/* Images as they were found, and the files of the tree in which they were. */
enum {
	FILE_LEN_MAX = 4 << 20, /* of a JSON file */
};

void draft_free(struct draft *d)
{
	while (d) {
		struct draft *next = d->next;

		for (char **p = d->names; p && *p; p++)
			free(*p);
		for (char **p = d->digests; p && *p; p++)
			free(*p);
		for (size_t i = 0; i < d->n_layers; i++) {
			free(d->layers[i].path);
			free(d->layers[i].digest);
			free(d->layers[i].diff_id);
			free(d->layers[i].dir);
			err_free(d->layers[i].failed);
		}
		free(d->names);
		free(d->digests);
		free(d->layers);
		json_doc_free(d->config);
		free(d);
		d = next;
	}
}

static void add_text(char ***list, const char *text)
{
	size_t n = 0;

	while (*list && (*list)[n])
		n++;
	*list = xrealloc(*list, (n + 2) * sizeof(**list));
	(*list)[n] = xstrdup(text);
	(*list)[n + 1] = NULL;
}

void draft_add_name(struct draft *d, const char *name)
{
	add_text(&d->names, name);
}

void draft_add_digest(struct draft *d, const char *digest)
{
	add_text(&d->digests, digest);
}

struct err *tree_open(int tree, const char *path, int *ret)
{
	struct stat st;
	struct err *e = file_open_beneath(tree, path, O_RDONLY | O_NONBLOCK, 0, ret);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return err_new(ERR_INVALID, "%s is missing from the archive", path);
	}
	if (e)
		return e;
	if (fstat(*ret, &st) < 0 || !S_ISREG(st.st_mode)) {
		(void)close(take_fd(*ret));
		return err_new(ERR_INVALID, "%s is not a file", path);
	}
	return NULL;
}

struct err *tree_read(int tree, const char *path, char **ret, size_t *ret_len)
{
	autoclose fd = -1;
	char name[64];
	struct err *e = tree_open(tree, path, &fd);

	if (e)
		return e;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	e = file_read(AT_FDCWD, name, FILE_LEN_MAX, ret, ret_len);
	if (err_is(e, ERR_TOO_LARGE)) {
		err_free(e);
		return err_new(ERR_TOO_LARGE, "%s is longer than %d bytes", path, FILE_LEN_MAX);
	}
	return e;
}
