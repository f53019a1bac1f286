/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/file.h"
#include "base/str.h"
#include "server/data/data.h"

/*
 * A missing store is not a new one. On the first start store.db is created before anything else, so
 * a directory that has something else and no store has lost it, most likely because a volume is not
 * mounted.
 */
struct err *data_presence_check(const char *data_dir)
{
	static const char *const signs[] = { "ca.crt", "ca.key", "sa.key", "store.db-wal",
					     "node/instance.json" };
	autofree char *store = xasprintf("%s/store.db", data_dir);

	if (file_exists(AT_FDCWD, store))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
		autofree char *sign = xasprintf("%s/%s", data_dir, signs[i]);

		if (file_exists(AT_FDCWD, sign))
			return err_new(ERR_NOT_FOUND,
				       "%s is missing, although %s shows that an instance lives "
				       "here; is a volume not mounted? Restore a backup "
				       "(`cay restore --force`), or begin without its objects with "
				       "--new-store",
				       store, sign);
	}
	return NULL;
}
