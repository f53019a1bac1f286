/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "server/data/archive_priv.h"
#include "store/store.h"

/*
 * A restoration replaces several files, and must be seen whole or not at all, whenever it is
 * killed:
 *
 *   1. restore.tmp/   gets the files, which are verified and synced. Nothing else was touched.
 *   2. restore.ready/ is what it is renamed to: the decision. From now on the new state counts.
 *   3. its files are moved into their places, and what they replace is removed, the list of them
 *      last. Whoever takes the directory's lock next does what was left of this.
 *
 * Revisions that were handed out after the backup must not be used again: clients would take other
 * states for those they know. So the store goes on from a revision far beyond them.
 */
#define STAGE "restore.tmp"
#define READY "restore.ready"
#define LIST  "files" /* the names that READY began with, one per line */
enum {
	SKIP_REVISIONS = 1000 * 1000 * 1000,
	LIST_MAX = 4096,
};

/* What belongs to a store or to a CA that was replaced, and is made again without. */
static const char *const outdated[] = {
	"store.db-wal", "store.db-shm", "store.db.reserve", "server.crt",       "server.key",
	"server.names", "admin.crt",    "admin.key",        "admin.kubeconfig", NULL
};

static struct err *sync_dir(int dir, const char *what)
{
	return fsync(dir) < 0 ? err_sys(errno, "sync %s", what) : NULL;
}

static struct err *open_dir(int at, const char *path, int *ret)
{
	*ret = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret < 0 ? err_sys(errno, "open %s", path) : NULL;
}

static struct err *drop(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove %s", name);
	return NULL;
}

/* Step 3 */

static bool listed(const char *list, const char *name)
{
	autofree char *line = xasprintf("%s\n", name);
	const char *at = strstr(list, line);

	return at && (at == list || at[-1] == '\n');
}

static struct err *move_file(int dir, int ready, const char *name)
{
	/* It may have been moved before we were interrupted. */
	if (renameat(ready, name, dir, name) < 0 && errno != ENOENT)
		return err_sys(errno, "rename %s", name);
	return NULL;
}

/* The log goes before the store comes: SQLite would take it for that of the new one. */
static struct err *move_all(int dir, int ready, const char *list)
{
	struct err *e = NULL;

	for (size_t i = 0; !e && outdated[i]; i++)
		e = drop(dir, outdated[i]);
	for (const struct archive_file *f = archive_files; !e && f->name; f++)
		e = listed(list, f->name) ? move_file(dir, ready, f->name) : drop(dir, f->name);
	if (!e)
		e = sync_dir(dir, "the data directory");
	return e ? e : drop(ready, LIST);
}

static struct err *finish(int dir)
{
	autofree char *list = NULL;
	autoclose ready = -1;
	size_t len;
	struct err *e = open_dir(dir, READY, &ready);

	if (e)
		return e;
	e = file_read(ready, LIST, LIST_MAX, &list, &len);
	if (err_is(e, ERR_NOT_FOUND)) { /* all but the directory itself was done */
		err_free(e);
		e = NULL;
	} else if (!e) {
		e = move_all(dir, ready, list);
	}
	if (!e)
		e = file_remove_tree(dir, READY);
	return e ? e : sync_dir(dir, "the data directory");
}

bool data_restore_pending(const char *data_dir)
{
	autofree char *path = xasprintf("%s/" READY, data_dir);

	return file_exists(AT_FDCWD, path);
}

struct err *data_restore_finish(const char *data_dir, bool *ret_did)
{
	autoclose dir = -1;
	struct err *e = open_dir(AT_FDCWD, data_dir, &dir);

	*ret_did = false;
	if (!e)
		e = file_remove_tree(dir, STAGE); /* of one that was never decided */
	if (e || !data_restore_pending(data_dir))
		return e;
	e = finish(dir);
	*ret_did = !e;
	return err_wrap(e, "complete the interrupted restoration of %s", data_dir);
}

/* Steps 1 and 2 */

/* The sandboxes that run here would be removed as leftovers if they were another store's. */
static struct err *check_owner(const char *data_dir, uint64_t id)
{
	autofree char *path = xasprintf("%s/node/store", data_dir), *was = NULL;
	char now[17];
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, 64, &was, &len);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return NULL;
	}
	if (e)
		return e;
	(void)snprintf(now, sizeof(now), "%016llx", (unsigned long long)id);
	if (str_eq(was, now))
		return NULL;
	return err_new(ERR_CONFLICT,
		       "the backup is of store %s, but the sandboxes and volumes in %s belong to "
		       "store %s; restore into another directory",
		       now, data_dir, was);
}

static struct err *adopt(const struct data_restore *r, struct data_backup_facts *facts)
{
	autofree char *path = xasprintf("%s/" STAGE "/" ARCHIVE_STORE, r->data_dir);
	struct store_facts store = { 0 };
	autoclose fd = -1;
	struct err *e = store_adopt(path, SKIP_REVISIONS, &store);

	if (e)
		return err_wrap(e, "check the store in %s", r->file);
	facts->rev = store.rev;
	facts->id = store.id;
	facts->objects = store.objects;
	facts->schema = store.schema;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? err_sys(errno, "sync %s", path) : NULL;
}

static struct err *write_list(int stage)
{
	autobuf list = { 0 };

	for (const struct archive_file *f = archive_files; f->name; f++)
		if (file_exists(stage, f->name))
			buf_printf(&list, "%s\n", f->name);
	return file_write_atomic(stage, LIST, buf_head(&list), list.len, 0600);
}

static struct err *stage_all(const struct data_restore *r, int dir, struct data_backup_facts *ret)
{
	autoclose stage = -1;
	struct err *e;

	if (mkdirat(dir, STAGE, 0700) < 0)
		return err_sys(errno, "create %s/" STAGE, r->data_dir);
	e = open_dir(dir, STAGE, &stage);
	if (!e)
		e = archive_unpack(r->file, stage, &r->progress, ret);
	if (!e)
		e = adopt(r, ret);
	if (!e)
		e = check_owner(r->data_dir, ret->id);
	if (!e)
		e = write_list(stage);
	return e ? e : sync_dir(stage, STAGE);
}

static struct err *check_free(const struct data_restore *r)
{
	for (const struct archive_file *f = archive_files; f->name && !r->force; f++) {
		autofree char *path = xasprintf("%s/%s", r->data_dir, f->name);

		if (file_exists(AT_FDCWD, path))
			return err_new(ERR_EXISTS,
				       "%s exists: the directory is in use; choose another one, or "
				       "replace its objects and keys with --force",
				       path);
	}
	return NULL;
}

static struct err *restore_into(const struct data_restore *r, struct data_backup_facts *ret)
{
	bool did = false;
	autoclose dir = -1;
	struct err *e = data_restore_finish(r->data_dir, &did);

	if (!e)
		e = check_free(r);
	if (!e)
		e = open_dir(AT_FDCWD, r->data_dir, &dir);
	if (e)
		return e;
	e = stage_all(r, dir, ret);
	if (e) {
		err_free(file_remove_tree(dir, STAGE)); /* else whoever is next removes it */
		return e;
	}
	if (renameat(dir, STAGE, dir, READY) < 0)
		return err_sys(errno, "rename " STAGE);
	e = sync_dir(dir, "the data directory");
	return e ? e : finish(dir);
}

/* A directory that we made for nothing. */
static void leave(const char *data_dir)
{
	autofree char *lock = xasprintf("%s/lock", data_dir);

	if (!unlink(lock))
		(void)rmdir(data_dir);
}

struct err *data_restore(const struct data_restore *r, struct data_backup_facts *ret)
{
	bool made = !file_exists(AT_FDCWD, r->data_dir);
	autoclose lock = -1;
	struct err *e;

	*ret = (struct data_backup_facts){ 0 };
	if (access(r->file, R_OK) < 0)
		return err_sys(errno, "open %s", r->file);
	e = file_mkdirs(r->data_dir, 0700);
	if (!e)
		e = data_lock(r->data_dir, &lock);
	if (e)
		return e;
	data_lock_tell(lock, "cay restore", NULL);
	e = restore_into(r, ret);
	if (e && made)
		leave(r->data_dir);
	return e;
}
