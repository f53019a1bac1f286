/* SPDX-License-Identifier: Apache-2.0 */
/* What `cay backup`, `restore`, `fsck` and `stop` need from server/. */
#include "server/data/data.h"

#include <stdio.h>

#include "api/registry.h"
#include "cli/cli.h"
#include "json/json.h"
#include "role/role.h"

static void report(void *arg, const char *what, uint64_t done, uint64_t all unused)
{
	struct cli_progress *p = arg;

	p->report(p->arg, what, done);
}

static struct data_progress progress_of(struct cli_progress *p)
{
	return (struct data_progress){ p ? report : NULL, p };
}

static struct json_doc *facts_tree(const struct data_backup_facts *f)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_int(d, o, "objects", (int64_t)f->objects);
	json_set_int(d, o, "revision", (int64_t)f->rev);
	json_set(d, o, "storeId", json_new_strf(d, "%016llx", (unsigned long long)f->id));
	json_set_int(d, o, "schema", f->schema);
	json_set_int(d, o, "bytes", (int64_t)f->bytes);
	json_set_str(d, o, "created", f->created);
	json_set_str(d, o, "version", f->version);
	return d;
}

static struct err *backup(const char *data_dir, const char *file, bool force,
			  struct cli_progress *progress, struct json_doc **ret)
{
	const struct data_backup b = { data_dir, file, force, progress_of(progress) };
	struct data_backup_facts facts;
	struct err *e = data_backup(&b, &facts);

	if (!e)
		*ret = facts_tree(&facts);
	return e;
}

static struct err *restore(const char *file, const char *data_dir, bool force,
			   struct cli_progress *progress, struct json_doc **ret)
{
	const struct data_restore r = { file, data_dir, force, progress_of(progress) };
	struct data_backup_facts facts;
	struct err *e = data_restore(&r, &facts);

	if (!e)
		*ret = facts_tree(&facts);
	return e;
}

static struct err *check(const char *data_dir, struct json_doc **ret, size_t *ret_faults)
{
	autoptr(kinds) kinds = kinds_new();

	return data_check(data_dir, kinds, ret, ret_faults);
}

static struct err *holder(const char *data_dir, struct cli_holder *ret)
{
	struct data_holder h;
	struct err *e = data_holder_find(data_dir, &h);

	ret->pid = h.pid;
	ret->pidfd = h.pidfd;
	(void)snprintf(ret->text, sizeof(ret->text), "%s", h.text);
	return e;
}

void data_provide(void)
{
	cli_data = (struct cli_data_ops){
		.backup = backup,
		.restore = restore,
		.check = check,
		.holder = holder,
	};
}
