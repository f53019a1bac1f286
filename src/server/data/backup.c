/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "server/data/archive_priv.h"
#include "store/store.h"

/*
 * A backup is what the same clients need to go on: the objects, as of one commit, and the keys that
 * signed their certificates, tokens and URLs. Certificates of the server and of the administrator
 * are not in it, because every start makes them if they are missing; nor is the instance's id,
 * which two directories on one host must not share.
 *
 * The store is copied next to the archive first, since its size comes before its content. Both have
 * temporary names until the archive is complete and synced.
 */
struct making {
	const struct data_backup *spec;
	char *store, *part; /* temporary names */
};

static void on_pages(void *arg, uint64_t done, uint64_t all)
{
	const struct data_progress *p = arg;

	if (p->fn)
		p->fn(p->arg, "copy the store", done * 4096, all * 4096);
}

static struct err *copy_store(struct making *m, struct data_backup_facts *ret)
{
	autofree char *from = xasprintf("%s/" ARCHIVE_STORE, m->spec->data_dir);
	struct data_progress progress = m->spec->progress;
	const struct store_copy copy = { from, m->store, on_pages, &progress };
	struct store_facts facts = { 0 };
	autoclose fd = open(m->store, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create %s", m->store);
	e = store_copy(&copy, &facts);
	if (e)
		return e;
	ret->rev = facts.rev;
	ret->id = facts.id;
	ret->objects = facts.objects;
	ret->schema = facts.schema;
	clock_format(clock_wall(), ret->created);
	(void)snprintf(ret->version, sizeof(ret->version), "%s", CAY_VERSION);
	return NULL;
}

static struct err *put_one(struct making *m, struct archive_writer *w, const struct archive_file *f)
{
	bool store = str_eq(f->name, ARCHIVE_STORE);
	autofree char *path =
		store ? xstrdup(m->store) : xasprintf("%s/%s", m->spec->data_dir, f->name);
	autoclose fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);

	if (fd < 0 && errno == ENOENT && !f->required)
		return NULL;
	if (fd < 0)
		return err_sys(errno, "open %s", path);
	return archive_put_file(w, f->name, fd);
}

static struct err *write_archive(struct making *m, int fd, struct data_backup_facts *facts)
{
	struct archive_writer w = { .fd = fd, .progress = &m->spec->progress };
	struct err *e = archive_put_facts(&w, facts);

	for (const struct archive_file *f = archive_files; !e && f->name; f++)
		e = put_one(m, &w, f);
	if (!e)
		e = archive_end(&w);
	facts->bytes = w.bytes;
	archive_writer_done(&w);
	return e;
}

static struct err *sync_directory_of(const char *path)
{
	autofree char *copy = xstrdup(path);
	autoclose fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? err_sys(errno, "sync the directory of %s", path) : NULL;
}

/* Without force, the name must still be free. */
static struct err *give_name(const struct making *m)
{
	const struct data_backup *b = m->spec;

	if (renameat2(AT_FDCWD, m->part, AT_FDCWD, b->file, b->force ? 0 : RENAME_NOREPLACE) < 0)
		return err_sys(errno, "rename %s to %s", m->part, b->file);
	return sync_directory_of(b->file);
}

static struct err *make(struct making *m, struct data_backup_facts *ret)
{
	autoclose fd = -1;
	struct err *e = copy_store(m, ret);

	if (e)
		return e;
	fd = open(m->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(errno, "create %s", m->part);
	e = err_wrap(write_archive(m, fd, ret), "write %s", m->part);
	if (!e && fsync(fd) < 0)
		e = err_sys(errno, "sync %s", m->part);
	return e ? e : give_name(m);
}

static struct err *may_begin(const struct data_backup *b)
{
	if (!b->force && file_exists(AT_FDCWD, b->file))
		return err_new(ERR_EXISTS,
			       "%s exists; choose another name, or replace it with --force",
			       b->file);
	if (data_restore_pending(b->data_dir))
		return err_new(
			ERR_CONFLICT,
			"a restoration of %s was interrupted; complete it first, by starting "
			"the server or by `cay restore --force` once more",
			b->data_dir);
	return NULL;
}

struct err *data_backup(const struct data_backup *b, struct data_backup_facts *ret)
{
	struct making m = { .spec = b };
	struct err *e = may_begin(b);
	char tag[13];

	if (e)
		return e;
	random_hex(tag, sizeof(tag) - 1);
	m.store = xasprintf("%s.%s.store.tmp", b->file, tag);
	m.part = xasprintf("%s.%s.tmp", b->file, tag);
	*ret = (struct data_backup_facts){ 0 };
	e = make(&m, ret);
	(void)unlink(m.store); /* it may never have been made, as the other one */
	if (e)
		(void)unlink(m.part);
	free(m.store);
	free(m.part);
	return e;
}
