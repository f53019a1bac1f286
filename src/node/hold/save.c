/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "node/hold/hold_priv.h"
#include "node/hold/record.h"

/*
 * The file of what is held. One job at a time writes all of it, and begins again if something has
 * changed meanwhile, so that any number of changes costs at most two writes.
 */
void holds_load(struct holds *h, bool (*add)(struct holds *h, const struct hold_record *r))
{
	autoptr(arena) a = arena_new();
	struct hold_file f;
	struct err *e = hold_file_read(h->path, a, &f);

	if (e) {
		log_warn("addresses of suspended sandboxes cannot be read, going on; each gets "
			 "another address when it wakes",
			 KV("err", e));
		err_free(e);
		return;
	}
	for (size_t i = 0; i < f.n_holds; i++) {
		const struct hold_record *r = &f.holds[i];

		if (!add(h, r))
			log_warn("the address of a suspended sandbox cannot be held, going on; it "
				 "gets another when it wakes",
				 KV("file", h->path), KV("entry", (uint64_t)i),
				 KV("sandbox", r->name ? r->name : ""),
				 KV("address", r->address ? r->address : ""));
	}
}

static void compose(struct holds *h)
{
	autoptr(arena) a = arena_new();
	struct hold_file f = { arena_new_n(a, struct hold_record, map_len(h->all) + 1), 0 };
	struct buf text = { 0 };

	map_each(it, h->all) {
		const struct hold *o = it.value;
		char *ip = arena_alloc(a, 16);

		instance_addr_text(h->spec.instance, o->place, ip);
		f.holds[f.n_holds++] =
			(struct hold_record){ o->uid, o->ns, o->name, ip, (int64_t)o->since };
	}
	hold_file_text(&f, &text);
	h->saving.text = buf_steal(&text, &h->saving.len);
	h->saving.version = h->version;
}

static void work(void *arg)
{
	struct holds *h = arg;

	h->saving.e = file_write_atomic(AT_FDCWD, h->path, h->saving.text, h->saving.len, 0600);
}

static void call_waiting(struct holds *h)
{
	struct holds_wait *w, *next;

	list_each_safe(w, next, &h->waiting, on)
		if (w->version <= h->saved) {
			list_del(&w->on);
			w->saved(w);
		}
}

static void done(void *arg)
{
	struct holds *h = arg;

	if (h->saving.e)
		log_error("cannot write down the addresses of suspended sandboxes; after a restart "
			  "they may get others",
			  KV("err", h->saving.e));
	err_free(take(h->saving.e));
	free(take(h->saving.text));
	h->saving.runs = false;
	h->saved = h->saving.version; /* or nobody can do anything about it */
	if (h->saved < h->version)
		holds_save(h);
	call_waiting(h);
}

void holds_save(struct holds *h)
{
	if (h->saving.runs)
		return; /* its end looks again */
	h->saving.runs = true;
	compose(h);
	jobs_run(&h->jobs, work, done, h);
}

bool holds_await(struct holds *h, struct holds_wait *w)
{
	if (!h || h->saved == h->version)
		return false;
	w->version = h->version;
	list_del(&w->on);
	list_add_tail(&h->waiting, &w->on);
	return true;
}
