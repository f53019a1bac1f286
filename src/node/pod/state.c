/* SPDX-License-Identifier: Apache-2.0 */
#include "node/pod/state.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "json/json.h"
#include "json/record.h"
#include "node/host/instance.h"

enum {
	STATE_MAX = 64 << 20, /* more than the largest Pod that the API takes can need */
};

static const struct record_field ending_fields[] = {
	RECORD(struct ending, reason, RECORD_STR),     RECORD(struct ending, message, RECORD_STR),
	RECORD(struct ending, id, RECORD_STR),         RECORD(struct ending, code, RECORD_INT),
	RECORD(struct ending, signal, RECORD_INT),     RECORD(struct ending, started, RECORD_INT64),
	RECORD(struct ending, finished, RECORD_INT64), { 0 },
};

static const struct record_field task_fields[] = {
	RECORD(struct runtime_record, id, RECORD_STR),
	RECORD(struct runtime_record, pid, RECORD_INT64),
	RECORD(struct runtime_record, range, RECORD_UINT),
	{ 0 },
};

static const struct record_field container_fields[] = {
	RECORD(struct container_record, name, RECORD_STR),
	RECORD_IN(struct container_record, task, task_fields),
	RECORD(struct container_record, image, RECORD_STR),
	RECORD(struct container_record, log, RECORD_STR),
	RECORD(struct container_record, prev_log, RECORD_STR),
	RECORD(struct container_record, restarts, RECORD_UINT),
	RECORD(struct container_record, unstarted, RECORD_BOOL),
	RECORD(struct container_record, exited, RECORD_BOOL),
	RECORD(struct container_record, started, RECORD_INT64),
	RECORD_IN(struct container_record, end, ending_fields),
	RECORD_IN(struct container_record, last, ending_fields),
	{ 0 },
};

static const struct record_field pod_fields[] = {
	RECORD(struct pod_record, ns, RECORD_STR),
	RECORD(struct pod_record, name, RECORD_STR),
	RECORD(struct pod_record, ip, RECORD_STR),
	RECORD(struct pod_record, sandbox, RECORD_STR),
	RECORD(struct pod_record, sandbox_uid, RECORD_STR),
	RECORD(struct pod_record, pvcs, RECORD_STRS),
	RECORD(struct pod_record, started, RECORD_INT64),
	RECORD(struct pod_record, shut_down, RECORD_BOOL),
	RECORD_MANY(struct pod_record, containers, n_containers, container_fields),
	{ 0 },
};

void pod_record_write(const struct pod_record *r, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();

	json_write(record_write(d, pod_fields, r), out);
}

struct err *pod_record_read(const char *text, size_t len, struct arena *a, struct pod_record *ret)
{
	const struct json_limits limits = { .max_len = STATE_MAX };
	autoptr(json_doc) d = NULL;
	struct pod_record r = { 0 };
	struct err *e = json_parse(text, len, &limits, &d);

	if (!e)
		e = record_read(json_root(d), pod_fields, a, &r);
	for (size_t i = 0; !e && i < r.n_containers; i++)
		if (str_empty(r.containers[i].name))
			e = err_new(ERR_MALFORMED, "containers[%zu] has no name", i);
	if (e)
		return e;
	*ret = r;
	return NULL;
}

static char *state_path(const char *uid)
{
	return xasprintf("%s/%s.json", instance_dir_name(INSTANCE_STATE), uid);
}

struct err *pod_record_save(int run_fd, const char *uid, const struct pod_record *r)
{
	autofree char *path = state_path(uid);
	autobuf text = { 0 };

	pod_record_write(r, &text);
	return file_replace(run_fd, path, buf_head(&text), text.len);
}

struct err *pod_record_load(int run_fd, const char *uid, struct arena *a, struct pod_record *ret)
{
	autofree char *path = state_path(uid), *text = NULL;
	size_t len;
	struct err *e = file_read(run_fd, path, STATE_MAX, &text, &len);

	if (!e)
		e = pod_record_read(text, len, a, ret);
	return e ? err_wrap(e, "read %s", path) : NULL;
}

void pod_record_remove(int run_fd, const char *uid)
{
	autofree char *path = state_path(uid);

	(void)unlinkat(run_fd, path, 0); /* what stays is swept by the next start */
}

void pod_records_each(const char *run_dir, void (*fn)(void *arg, const char *uid), void *arg)
{
	autofree char *dir = xasprintf("%s/%s", run_dir, instance_dir_name(INSTANCE_STATE));
	DIR *d = opendir(dir);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		autofree char *uid = NULL;

		if (de->d_name[0] == '.' || !str_ends(de->d_name, ".json"))
			continue;
		uid = xstrndup(de->d_name, strlen(de->d_name) - strlen(".json"));
		fn(arg, uid);
	}
	if (d)
		(void)closedir(d);
}
