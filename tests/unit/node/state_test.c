/* SPDX-License-Identifier: Apache-2.0 */
#include "node/pod/state.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "test.h"

static void eq_ending(const struct ending *a, const struct ending *b)
{
	eq_str(a->reason, b->reason);
	eq_str(a->message, b->message);
	eq_str(a->id, b->id);
	eq_int(a->code, b->code);
	eq_int(a->signal, b->signal);
	eq_int(a->started, b->started);
	eq_int(a->finished, b->finished);
}

TEST(what_is_written_down_of_a_pod_is_read_back)
{
	char reason[] = "Error", message[] = "m\n\"", id[] = "cay://t1";
	const struct ending end = { reason, message, id, 3, 9, 1700000000000000, 1700000000000001 };
	struct container_record c[2] = {
		{ .name = "a",
		  .task = { .id = "t2", .pid = INT64_MAX, .range = 7 },
		  .image = "0123456789abcdef",
		  .log = "t2",
		  .prev_log = "t1",
		  .restarts = 4,
		  .started = 1700000000000000,
		  .last = end },
		{ .name = "b", .log = "t3", .end = end },
	};
	const char *pvcs[] = { "u1", "u2", NULL };
	const struct pod_record r = { "ns", "p", "10.0.0.1", "s", "u", pvcs, -5, true, c, 2 };
	autoptr(arena) a = arena_new();
	autobuf text = { 0 };
	struct pod_record back;

	pod_record_write(&r, &text);
	works(pod_record_read(buf_head(&text), text.len, a, &back));
	eq_str(back.ns, "ns");
	eq_str(back.name, "p");
	eq_str(back.ip, "10.0.0.1");
	eq_str(back.sandbox, "s");
	eq_str(back.sandbox_uid, "u");
	eq_str(back.pvcs[0], "u1");
	eq_str(back.pvcs[1], "u2");
	eq_str(back.pvcs[2], NULL);
	eq_int(back.started, -5);
	is_true(back.shut_down);
	eq_int(back.n_containers, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct container_record *b = &back.containers[i];

		eq_str(b->name, c[i].name);
		eq_str(b->task.id, c[i].task.id);
		eq_int(b->task.pid, c[i].task.pid);
		eq_int(b->task.range, c[i].task.range);
		eq_str(b->image, c[i].image);
		eq_str(b->log, c[i].log);
		eq_str(b->prev_log, c[i].prev_log);
		eq_int(b->restarts, c[i].restarts);
		eq_int(b->started, c[i].started);
		eq_ending(&b->end, &c[i].end);
		eq_ending(&b->last, &c[i].last);
	}
}

TEST(a_record_of_another_shape_is_malformed)
{
	static const char *const rows[] = {
		"null",
		"{\"ip\":5}",
		"{\"containers\":[1]}",
		"{\"containers\":[{\"name\":\"\"}]}",
		"{\"containers\":[{\"name\":\"a\",\"task\":\"t\"}]}",
		"{\"containers\":[{\"name\":\"a\",\"end\":{\"code\":99999999999}}]}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		struct pod_record r;

		fails(pod_record_read(rows[i], strlen(rows[i]), a, &r), ERR_MALFORMED);
	}
}
