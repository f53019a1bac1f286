/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "client/http_priv.h"
#include "kinds.h"
#include "rig.h"

static void tell(void *arg, struct object *was, struct object *now)
{
	is_true(was || now);
	buf_printf(arg, "%s%s@%d ",
		   was && now ? "~"
		   : now      ? "+"
			      : "-",
		   (now ? now : was)->name, (int)(now ? now : was)->rev);
}

static struct object *object(const char *name, const char *uid, int rev)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", "default");
	json_set_str(d, meta, "uid", uid);
	json_set(d, meta, "resourceVersion", json_new_strf(d, "%d", rev));
	return http_object(kind_named("ConfigMap"), d);
}

static void put(struct cache *c, const char *name, const char *uid, int rev)
{
	autoptr(object) o = object(name, uid, rev);

	cache_put(c, o);
}

static void del(struct cache *c, const char *name, const char *uid, int rev)
{
	autoptr(object) o = object(name, uid, rev);

	cache_del(c, o);
}

static void item(struct cache *c, const char *name, const char *uid, int rev)
{
	autoptr(object) o = object(name, uid, rev);

	cache_list_item(c, o);
}

TEST(an_older_event_does_not_undo_a_write)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	put(c, "a", "u1", 5);
	put(c, "a", "u1", 9); /* the answer to our write */
	put(c, "a", "u1", 7); /* the watch, late */
	put(c, "a", "u1", 9);
	eq_str(buf_str(&said), "+a@5 ~a@9 ");
	eq_int(cache_get(c, "default", "a")->rev, 9);
}

TEST(an_older_delete_does_not_undo_a_create)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	put(c, "a", "u1", 5);
	put(c, "a", "u2", 9);
	del(c, "a", "u1", 8);
	eq_str(buf_str(&said), "+a@5 -a@5 +a@9 ");
	del(c, "a", "u2", 10);
	eq_int(cache_len(c), 0);
}

TEST(what_our_delete_removed_stays_removed)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	put(c, "a", "u1", 5);
	cache_bury(c, "default", "a", "u1");
	put(c, "a", "u1", 6); /* a change before the delete, told late */
	eq_int(cache_len(c), 0);
	put(c, "a", "u2", 8); /* another one of that name */
	del(c, "a", "u1", 7);
	eq_str(buf_str(&said), "+a@5 -a@5 +a@8 ");
}

TEST(a_bury_of_another_uid_does_nothing)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	put(c, "a", "u2", 5);
	cache_bury(c, "default", "a", "u1");
	cache_bury(c, "default", "b", "u1");
	eq_int(cache_len(c), 1);
}

TEST(a_fresh_list_tells_the_difference)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	put(c, "gone", "u1", 1);
	put(c, "same", "u2", 2);
	put(c, "moved", "u3", 3);
	put(c, "newer", "u4", 30); /* created after the list was taken */
	buf_clear(&said);
	cache_list_begin(c);
	item(c, "same", "u2", 2);
	item(c, "moved", "u3", 8);
	item(c, "added", "u5", 9);
	cache_list_end(c, 20);
	eq_str(buf_str(&said), "~moved@8 +added@9 -gone@1 ");
	is_true(cache_get(c, "default", "newer"));
}

TEST(a_write_during_a_list_is_not_taken_for_listed)
{
	autobuf said = { 0 };
	autoptr(cache) c = cache_new(tell, &said);

	cache_list_begin(c);
	put(c, "a", "u1", 5); /* and deleted by another before the list was taken at 9 */
	cache_list_end(c, 9);
	eq_str(buf_str(&said), "+a@5 -a@5 ");
}
