/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "guest/files/watcher_queue_priv.h"
#include "guest/files/watcher_tree_priv.h"
#include "test.h"

/* Everything in the queue: a letter for the type, the path, and where it was. */
static void eq_queue(struct watch_queue *q, const char *want)
{
	static const char letters[] = "-CWRNXE";
	autobuf got = { 0 };
	struct queued *c;

	while ((c = watch_queue_first(q))) {
		buf_printf(&got, "%c%s", letters[c->type], c->path);
		if (c->old)
			buf_printf(&got, "<%s", c->old);
		buf_add_char(&got, ' ');
		watch_queue_drop(q, c);
	}
	eq_str(buf_str(&got), want);
}

TEST(what_repeats_is_told_once)
{
	struct watch_queue q;

	watch_queue_init(&q);
	assert_true(watch_queue_add(&q, WATCH_CREATE, "a"));
	assert_true(watch_queue_add(&q, WATCH_CHANGED, "a"));
	assert_true(watch_queue_add(&q, WATCH_CHANGED, "b"));
	assert_true(watch_queue_add(&q, WATCH_CHANGED, "b"));
	assert_true(watch_queue_add(&q, WATCH_CHMOD, "b"));
	assert_true(watch_queue_add(&q, WATCH_CHANGED, "b"));
	assert_true(watch_queue_add(&q, WATCH_REMOVE, "a"));
	assert_true(watch_queue_add(&q, WATCH_CREATE, "a"));
	eq_queue(&q, "Ca Wb Xb Wb Ra Ca ");
	watch_queue_done(&q);
}

TEST(a_name_that_turns_up_again_is_a_rename)
{
	struct watch_queue q;

	watch_queue_init(&q);
	assert_true(watch_queue_gone(&q, "a", 7));
	assert_true(watch_queue_gone(&q, "b", 8));
	assert_true(watch_queue_back(&q, "c", 7));
	assert_false(watch_queue_back(&q, "d", 7));
	assert_false(watch_queue_back(&q, "d", 0));
	assert_true(watch_queue_add(&q, WATCH_CREATE, "a")); /* another file */
	eq_queue(&q, "Nc<a Rb Ca ");
	watch_queue_done(&q);
}

TEST(changes_that_nobody_reads_have_a_limit)
{
	struct watch_queue q;

	watch_queue_init(&q);
	for (int i = 0; i < WATCH_QUEUE_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%d", i);
		assert_true(watch_queue_add(&q, WATCH_CREATE, name));
	}
	assert_false(watch_queue_add(&q, WATCH_CREATE, "x"));
	assert_false(watch_queue_gone(&q, "y", 1));
	assert_true(watch_queue_add(&q, WATCH_CHANGED, "7")); /* takes no room */
	watch_queue_done(&q);
}

static void eq_path(const struct watch_dir *d, const char *name, const char *want)
{
	autobuf path = { 0 };

	watch_tree_path(d, name, &path);
	eq_str(buf_str(&path), want);
}

TEST(a_directory_that_moves_takes_everything_below_along)
{
	struct watch_tree t;
	struct watch_dir *top, *a, *b, *c;

	watch_tree_init(&t);
	top = watch_tree_add(&t, 1, NULL, "");
	a = watch_tree_add(&t, 257, top, "a"); /* the same bucket */
	b = watch_tree_add(&t, 3, top, "b");
	c = watch_tree_add(&t, 4, a, "c");
	assert_null(watch_tree_add(&t, 4, b, "again"));
	eq_path(top, "f", "f");
	eq_path(top, NULL, "");
	eq_path(c, "f", "a/c/f");
	watch_tree_move(a, b, "z");
	eq_path(c, "f", "b/z/c/f");
	assert_true(watch_tree_below(c, b) && watch_tree_below(b, b) && !watch_tree_below(b, c));
	assert_true(watch_tree_find(&t, 257) == a);
	assert_null(watch_tree_find(&t, 5));
	eq_int(t.n, 4);
	watch_tree_done(&t);
	eq_int(t.n, 0);
}

TEST(paths_begin_where_the_watch_does)
{
	struct watch_tree t;
	struct watch_dir *top;

	watch_tree_init(&t);
	top = watch_tree_add(&t, 1, NULL, "sub/dir");
	eq_path(top, "", "sub/dir");
	eq_path(watch_tree_add(&t, 2, top, "x"), "f", "sub/dir/x/f");
	watch_tree_done(&t);
}
