/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hold/record.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "json/json.h"
#include "json/record.h"

/* The file is only ever replaced as a whole, so a part of one is damage and not a state. */
enum {
	FILE_MAX = 8 * 1024 * 1024, /* as many holds as there can be, with the longest names */
};

static const struct record_field record_fields[] = {
	RECORD(struct hold_record, uid, RECORD_STR),
	RECORD(struct hold_record, ns, RECORD_STR),
	RECORD(struct hold_record, name, RECORD_STR),
	RECORD(struct hold_record, address, RECORD_STR),
	RECORD(struct hold_record, since, RECORD_INT64),
	{ 0 },
};
static const struct record_field file_fields[] = {
	RECORD_MANY(struct hold_file, holds, n_holds, record_fields),
	{ 0 },
};

char *hold_file_path(const char *data_dir)
{
	return xasprintf("%s/node/holds.json", data_dir);
}

void hold_file_text(const struct hold_file *f, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();

	json_write_pretty(record_write(d, file_fields, f), out);
}

struct err *hold_file_read(const char *path, struct arena *a, struct hold_file *ret)
{
	const struct json_limits limits = { .max_len = FILE_MAX };
	autoptr(json_doc) d = NULL;
	autofree char *text = NULL;
	size_t len = 0;
	struct err *e = file_read(AT_FDCWD, path, FILE_MAX, &text, &len);

	*ret = (struct hold_file){ 0 };
	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return NULL;
	}
	if (!e)
		e = json_parse(text, len, &limits, &d);
	if (!e)
		e = record_read(json_root(d), file_fields, a, ret);
	return e ? err_wrap(e, "read %s", path) : NULL;
}
