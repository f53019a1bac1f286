/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

static struct err *foreign(const char *path, const char *was, const char *now)
{
	return err_new(
		ERR_CONFLICT,
		"the sandboxes and volumes here belong to the store %s, and this is %s: restore "
		"that store.db, or delete %s to have all of them removed",
		was, now, path);
}

/* Without the file, the next start cannot tell; that is no reason not to start on a full disk. */
static void save(const char *dir, const char *path, const char *id)
{
	struct err *e = file_mkdirs(dir, 0700);

	if (!e)
		e = file_write_atomic(AT_FDCWD, path, id, strlen(id), 0600);
	if (e)
		log_warn("the store's id could not be saved, going on; another store in its place "
			 "would not be noticed",
			 KV("err", e));
	err_free(e);
}

struct err *owner_check(const char *data_dir, uint64_t store_id, bool is_new)
{
	autofree char *dir = xasprintf("%s/node", data_dir), *path = xasprintf("%s/store", dir);
	autofree char *instance = xasprintf("%s/instance.json", dir), *was = NULL;
	char now[17];
	size_t len;
	struct err *e;

	if (!store_id)
		return NULL;
	(void)snprintf(now, sizeof(now), "%016llx", (unsigned long long)store_id);
	e = file_read(AT_FDCWD, path, 64, &was, &len);
	if (e && !err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	if (was)
		return str_eq(was, now) ? NULL : foreign(path, was, now);
	/* An instance of an earlier version has no such file, and a store that is not new. */
	if (is_new && file_exists(AT_FDCWD, instance))
		return foreign(instance, "that is missing", now);
	save(dir, path, now);
	return NULL;
}
