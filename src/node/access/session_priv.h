/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/str.h"
#include "client/access.h"
#include "loop/jobs.h"

struct inotify;
struct pods;

struct ways {
	struct loop *loop;
	struct pods *pods;
	struct inotify *inotify;
	int run_fd;
	const struct diskpool *disk;
	struct jobs jobs;
	struct access *access;
};

/*
 * What client/access.h calls a session: an exec or a dialled port (session.c), or a log reader
 * (logs.c). Each begins with this, so that the operations know which one they are given.
 */
struct session_head {
	const struct session_kind *kind;
};
struct session_kind {
	void (*write)(void *session, const void *p, size_t len);
	bool (*full)(void *session);
	void (*end_input)(void *session);
	void (*resize)(void *session, uint16_t cols, uint16_t rows);
	void (*pause)(void *session, bool paused);
	void (*cancel)(void *session);
};

/* ctx is struct ways. */
must_use struct err *session_exec(void *ctx, const struct access_exec_spec *spec,
				  const struct access_events *ev, void *arg, void **ret);
must_use struct err *session_dial(void *ctx, const struct access_dial_spec *spec,
				  const struct access_events *ev, void *arg, void **ret);
must_use struct err *session_logs(void *ctx, const struct access_log_spec *spec,
				  const struct access_events *ev, void *arg, void **ret);

/* cri.c: a line of a CRI log, "2016-10-06T00:17:09.669794202Z stdout F text". */
struct cri_line {
	struct span time, text;
	bool is_stderr, partial;
};
bool cri_parse(struct span line, struct cri_line *ret);
