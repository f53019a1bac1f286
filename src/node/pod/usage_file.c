/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "json/json.h"
#include "json/record.h"
#include "node/pod/usage_priv.h"

/*
 * The one file with what all Pods have used. Unlike the state files it is on a disk: a machine that
 * starts again runs its Pods again, and what they used before counts.
 */
enum {
	USAGE_MAX = 256 << 20,
};

#define FIELD(s, m) RECORD(s, m, RECORD_INT64)

static const struct record_field sums_fields[] = {
	FIELD(struct usage_sums, cpu_usec),    FIELD(struct usage_sums, memory_byte_s),
	FIELD(struct usage_sums, disk_byte_s), FIELD(struct usage_sums, received),
	FIELD(struct usage_sums, sent),        { 0 },
};

static const struct record_field meter_fields[] = {
	RECORD(struct meter, task, RECORD_STR),
	RECORD(struct meter, over, RECORD_BOOL),
	FIELD(struct meter, cpu_usec),
	FIELD(struct meter, task_cpu_usec),
	FIELD(struct meter, memory_byte_s),
	FIELD(struct meter, disk_byte_s),
	FIELD(struct meter, memory),
	FIELD(struct meter, disk),
	FIELD(struct meter, at),
	{ 0 },
};

static const struct record_field net_fields[] = {
	FIELD(struct net_meter, received),
	FIELD(struct net_meter, sent),
	FIELD(struct net_meter, net_received),
	FIELD(struct net_meter, net_sent),
	{ 0 },
};

static const struct record_field container_fields[] = {
	RECORD(struct usage_container_record, name, RECORD_STR),
	RECORD_IN(struct usage_container_record, meter, meter_fields),
	{ 0 },
};

static const struct record_field pod_fields[] = {
	RECORD(struct usage_pod_record, uid, RECORD_STR),
	RECORD(struct usage_pod_record, ns, RECORD_STR),
	RECORD(struct usage_pod_record, sandbox, RECORD_STR),
	RECORD_IN(struct usage_pod_record, attached, sums_fields),
	RECORD_IN(struct usage_pod_record, net, net_fields),
	RECORD_MANY(struct usage_pod_record, containers, n_containers, container_fields),
	{ 0 },
};

static const struct record_field attached_meter_fields[] = {
	RECORD(struct attached_meter, task, RECORD_STR),
	RECORD_IN(struct attached_meter, meter, meter_fields),
	{ 0 },
};

static const struct record_field attached_fields[] = {
	RECORD(struct attached, uid, RECORD_STR),
	RECORD(struct attached, ns, RECORD_STR),
	RECORD(struct attached, sandbox, RECORD_STR),
	FIELD(struct attached, cpu_usec),
	FIELD(struct attached, memory_byte_s),
	FIELD(struct attached, disk_byte_s),
	FIELD(struct attached, seen),
	RECORD_MANY(struct attached, meters, n_meters, attached_meter_fields),
	{ 0 },
};

static const struct record_field over_fields[] = {
	RECORD(struct usage_over, uid, RECORD_STR),
	RECORD(struct usage_over, ns, RECORD_STR),
	RECORD(struct usage_over, sandbox, RECORD_STR),
	RECORD_IN(struct usage_over, used, sums_fields),
	FIELD(struct usage_over, at),
	{ 0 },
};

static const struct record_field usage_fields[] = {
	RECORD_MANY(struct usage_record, over, n_over, over_fields),
	RECORD_MANY(struct usage_record, attached, n_attached, attached_fields),
	RECORD_IN(struct usage_record, gone, sums_fields),
	RECORD_MANY(struct usage_record, pods, n_pods, pod_fields),
	{ 0 },
};

void usage_record_write(const struct usage_record *r, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();

	json_write(record_write(d, usage_fields, r), out);
}

static struct err *check(const struct usage_record *r)
{
	for (size_t i = 0; i < r->n_pods; i++) {
		const struct usage_pod_record *p = &r->pods[i];

		if (str_empty(p->uid))
			return err_new(ERR_MALFORMED, "pods[%zu] has no uid", i);
		for (size_t k = 0; k < p->n_containers; k++)
			if (str_empty(p->containers[k].name))
				return err_new(ERR_MALFORMED,
					       "pods[%zu].containers[%zu] has no name", i, k);
	}
	for (size_t i = 0; i < r->n_over; i++)
		if (str_empty(r->over[i].uid) || str_empty(r->over[i].ns))
			return err_new(ERR_MALFORMED, "over[%zu] has no uid or no ns", i);
	for (size_t i = 0; i < r->n_attached; i++) {
		const struct attached *a = &r->attached[i];

		if (str_empty(a->uid))
			return err_new(ERR_MALFORMED, "attached[%zu] has no uid", i);
		for (size_t k = 0; k < a->n_meters; k++)
			if (str_empty(a->meters[k].task))
				return err_new(ERR_MALFORMED,
					       "attached[%zu].meters[%zu] has no task", i, k);
	}
	return NULL;
}

struct err *usage_record_read(const char *text, size_t len, struct arena *a,
			      struct usage_record *ret)
{
	const struct json_limits limits = { .max_len = USAGE_MAX };
	autoptr(json_doc) d = NULL;
	struct usage_record r = { 0 };
	struct err *e = json_parse(text, len, &limits, &d);

	if (!e)
		e = record_read(json_root(d), usage_fields, a, &r);
	if (!e)
		e = check(&r);
	if (e)
		return e;
	*ret = r;
	return NULL;
}

static char *file_path(const char *data_dir)
{
	return xasprintf("%s/node/usage.json", data_dir);
}

struct err *usage_record_load(const char *data_dir, struct arena *a, struct usage_record *ret)
{
	autofree char *path = file_path(data_dir), *text = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, USAGE_MAX, &text, &len);

	return e ? e : usage_record_read(text, len, a, ret);
}

struct err *usage_record_save(const char *data_dir, const char *text, size_t len)
{
	autofree char *path = file_path(data_dir), *dir = xasprintf("%s/node", data_dir);
	struct err *e = file_mkdirs(dir, 0700);

	return e ? e : file_write_atomic(AT_FDCWD, path, text, len, 0600);
}
