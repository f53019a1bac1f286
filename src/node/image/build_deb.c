/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/image/build_priv.h"

/*
 * A Debian package: an ar archive with "debian-binary", a control.tar and a data.tar, either
 * compressed in any way. Both tars are unpacked by the reader of layers, with its limits, and the
 * scripts in the first are never run.
 */
enum {
	CHUNK = 64 * 1024,
};

static struct err *malformed(struct archive *a)
{
	return err_new(ERR_MALFORMED, "it is not a Debian package: %s",
		       str_or(archive_error_string(a), "unknown"));
}

/* The member as a file without a name, from its beginning. */
static struct err *copy_member(struct archive *a, int work, int *ret)
{
	autoclose fd =
		openat(work, "member", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char chunk[4096];
	la_ssize_t n;

	if (fd < 0 || unlinkat(work, "member", 0) < 0)
		return err_sys(errno, "create a file for a part of the package");
	while ((n = archive_read_data(a, chunk, sizeof(chunk))) > 0) {
		struct err *e = fd_write_all(fd, chunk, (size_t)n);

		if (e)
			return e;
	}
	if (n < 0)
		return malformed(a);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(errno, "rewind");
	*ret = take_fd(fd);
	return NULL;
}

static struct err *unpack_member(struct archive *a, int work, int root, const struct layer_job *job)
{
	autoclose fd = -1;
	struct layer_done done;
	struct err *e = copy_member(a, work, &fd);

	return e ? e : layer_unpack(&(struct tar_from){ .fd = fd }, root, job, &done);
}

static struct err *read_control(struct archive *a, int work, char **ret)
{
	const struct layer_job job = { .max_bytes = 64 << 20, .max_entries = 1000 };
	autoclose dir = -1;
	autofree char *text = NULL;
	struct err *e = file_remove_tree(work, "control");

	if (e)
		return e;
	if (mkdirat(work, "control", 0700) < 0)
		return err_sys(errno, "create directory control");
	dir = openat(work, "control", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(errno, "open directory control");
	e = unpack_member(a, work, dir, &job);
	if (!e)
		e = tree_read(dir, "control", &text, NULL);
	if (e)
		return err_wrap(e, "control.tar");
	free(*ret);
	*ret = take(text);
	return NULL;
}

struct reading {
	struct archive *a;
	int work, root;
	const struct layer_job *job;
	char *control;
	bool data;
};

static struct err *read_members(struct reading *r)
{
	struct archive_entry *en;
	int status;

	while ((status = archive_read_next_header(r->a, &en)) == ARCHIVE_OK) {
		const char *name = str_or(archive_entry_pathname(en), "");
		struct err *e = NULL;

		if (str_starts(name, "control.tar"))
			e = read_control(r->a, r->work, &r->control);
		else if (str_starts(name, "data.tar") && !r->data) {
			e = unpack_member(r->a, r->work, r->root, r->job);
			r->data = true;
		}
		if (e)
			return e;
	}
	return status == ARCHIVE_EOF ? NULL : malformed(r->a);
}

struct err *deb_unpack(int fd, int work, int root, const struct layer_job *job, char **ret)
{
	struct reading r = { .a = archive_read_new(), .work = work, .root = root, .job = job };
	struct err *e;

	(void)archive_read_support_format_ar(r.a);
	e = archive_read_open_fd(r.a, fd, CHUNK) == ARCHIVE_OK ? read_members(&r) : malformed(r.a);
	(void)archive_read_free(r.a);
	if (!e && (!r.control || !r.data))
		e = err_new(ERR_MALFORMED, "it is not a Debian package: it has no %s.tar",
			    r.control ? "data" : "control");
	if (e)
		free(r.control);
	else
		*ret = r.control;
	return e;
}
