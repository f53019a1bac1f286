/* SPDX-License-Identifier: Apache-2.0 */
/* `cay logs`: what the command of a sandbox has written. */
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/sandbox_priv.h"

const struct setting logs_settings[] = {
	{ "follow", SETTING_BOOL, "false", NULL, "Go on with what is written from now on",
	  .letter = 'f' },
	{ "tail", SETTING_INT, "-1", "N", "Only the last N lines; -1: all", .min = -1,
	  .max = INT32_MAX },
	{ "since", SETTING_DURATION, "0s", "TIME", "Only what is not older than this; 0s: all" },
	{ "timestamps", SETTING_BOOL, "false", NULL, "Begin each line with its time" },
	{ "previous", SETTING_BOOL, "false", NULL, "Of the container before its last restart" },
	{ "container", SETTING_TEXT, NULL, "NAME", "Container, of several", .letter = 'c' },
	REMOTE_SETTINGS,
	{ 0 },
};

struct log_feed {
	struct feed feed;
	struct err *e;
};

static bool on_data(struct feed *f, const char *p, size_t len)
{
	struct log_feed *l = container_of(f, struct log_feed, feed);

	l->e = fd_write_all(STDOUT_FILENO, p, len);
	return !l->e;
}

static char *log_path(const struct named *t, const struct settings *s)
{
	autofree char *pod = path_pods(t->ns, t->pod);
	autobuf b = { 0 };

	buf_printf(&b, "%s/log?follow=%s&timestamps=%s&previous=%s", pod,
		   settings_bool(s, "follow") ? "true" : "false",
		   settings_bool(s, "timestamps") ? "true" : "false",
		   settings_bool(s, "previous") ? "true" : "false");
	if (settings_int(s, "tail") >= 0)
		buf_printf(&b, "&tailLines=%lld", (long long)settings_int(s, "tail"));
	if (settings_int(s, "since"))
		buf_printf(&b, "&sinceSeconds=%lld",
			   (long long)(settings_int(s, "since") + 999) / 1000);
	if (settings_text(s, "container")) {
		autofree char *name = url_encode(settings_text(s, "container"));

		buf_printf(&b, "&container=%s", name);
	}
	return buf_steal(&b, NULL);
}

int logs_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	struct named t = { 0 };
	struct log_feed l = { .feed = { .data = on_data } };
	autofree char *path = NULL;
	struct err *e = NULL;

	if (settings_n_args(s) != 1)
		e = err_new(ERR_INVALID, "give one name: cay logs NAME");
	if (!e)
		e = remote_open(s, &r);
	if (!e)
		e = named_find(r, settings_arg(s, 0), &t);
	if (!e) {
		path = log_path(&t, s);
		e = remote_feed(r, path, &l.feed);
	}
	if (e && t.pod)
		e = named_trouble(r, &t, e);
	if (!e)
		e = take(l.e); /* our reader has left */
	named_done(&t);
	return e ? cli_fail(err_wrap(e, "logs")) : EXIT_OK;
}
