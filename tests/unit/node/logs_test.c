/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "client/access.h"
#include "node/access/ways.h"
#include "node/disk/disk.h"
#include "node/host/inotify.h"
#include "rig.h"

/* The log of a container, written by the test in place of the guest. */
#define LINE(text) "2016-10-06T00:17:09.669794202Z stdout F " text "\n"

struct listener {
	struct rig rig;
	struct inotify *inotify;
	struct ways *ways;
	struct diskpool *disk;
	int log;
	struct access_session *session;
	struct buf told;
	unsigned n_told;
	bool cancels, pauses; /* when it is told something */
	bool ended;
};

static void on_output(void *arg, int fd, const char *data, size_t len)
{
	struct listener *l = arg;

	eq_int(fd, 1);
	buf_add(&l->told, data, len);
	l->n_told++;
	if (l->pauses)
		access_pause(l->session, true);
	if (l->cancels)
		access_cancel(take(l->session));
}

static void on_ended(void *arg, const struct err *e, unused int code, unused int signum)
{
	struct listener *l = arg;

	is_true(!e);
	l->ended = true;
}

static void append(struct listener *l, const char *text)
{
	works(fd_write_all(l->log, text, strlen(text)));
}

static void listener_open(struct listener *l)
{
	struct err *why = NULL;
	autofree char *roots = NULL, *dir = NULL, *path = NULL;
	struct ways_spec spec = { .run_fd = -1 };

	*l = (struct listener){ 0 };
	rig_open(&l->rig);
	pod_create(&l->rig, "p",
		   "'restartPolicy':'Never','containers':[{'name':'a','image':'img'}]");
	fake_start(fake_last(&l->rig.rt));
	turn(&l->rig);
	l->inotify = inotify_open(l->rig.loop, &why);
	works(why);
	roots = xasprintf("%s/roots", l->rig.dir);
	dir = xasprintf("%s/%s", roots, fake_last(&l->rig.rt)->id);
	path = xasprintf("%s/log", dir);
	works(file_mkdirs(dir, 0700));
	l->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	is_true(l->log >= 0);
	spec.loop = l->rig.loop;
	spec.pods = l->rig.pods;
	spec.inotify = l->inotify;
	l->disk = diskpool_open_plain(l->rig.dir);
	spec.disk = l->disk;
	l->ways = ways_new(&spec);
}

static void listen_to(struct listener *l, bool follow)
{
	static const struct access_events events = { .output = on_output, .ended = on_ended };
	const struct access_log_spec spec = { .to = { NS, "p", "a", "me" },
					      .follow = follow,
					      .tail = -1 };

	works(access_logs(ways_access(l->ways), &spec, &events, l, &l->session));
}

static void listener_done(struct listener *l)
{
	ways_free(l->ways);
	diskpool_free(l->disk);
	inotify_free(l->inotify);
	if (l->log >= 0)
		(void)close(l->log);
	buf_done(&l->told);
	rig_done(&l->rig);
}

TEST(a_followed_log_is_told_until_its_container_has_ended)
{
	struct listener l;

	listener_open(&l);
	append(&l, LINE("one"));
	listen_to(&l, true);
	until(&l.rig, l.n_told == 1);
	append(&l, LINE("two"));
	until(&l.rig, l.n_told == 2);
	is_false(l.ended);
	append(&l, LINE("three"));
	(void)close(l.log);
	l.log = -1;
	fake_exit(fake_last(&l.rig.rt), 0);
	until(&l.rig, l.ended);
	eq_str(buf_str(&l.told), "one\ntwo\nthree\n");
	listener_done(&l);
}

TEST(a_log_may_be_cancelled_by_its_listener_at_any_time)
{
	for (int when = 0; when < 3; when++) {
		struct listener l;

		listener_open(&l);
		append(&l, LINE("one"));
		l.cancels = when == 1;
		listen_to(&l, true);
		if (when)
			until(&l.rig, l.n_told == 1);
		if (when == 2)
			ways_settle(l.ways);
		if (l.session)
			access_cancel(take(l.session));
		ways_settle(l.ways);
		eq_int(l.n_told, when ? 1 : 0);
		is_false(l.ended);
		listener_done(&l);
	}
}

TEST(a_paused_log_waits)
{
	struct listener l;

	listener_open(&l);
	for (int i = 0; i < 3000; i++) /* more than is read at once */
		append(&l, LINE("0123456789"));
	l.pauses = true;
	listen_to(&l, false);
	until(&l.rig, l.n_told == 1);
	for (int i = 0; i < 5; i++)
		turn(&l.rig);
	ways_settle(l.ways);
	eq_int(l.n_told, 1);
	is_false(l.ended);
	l.pauses = false;
	access_pause(l.session, false);
	until(&l.rig, l.ended);
	eq_int(l.told.len, 3000 * 11);
	listener_done(&l);
}
