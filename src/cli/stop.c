/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay stop`: ends the server of a data directory, found by the lock that it holds, and waits for
 * it. A process is held by its pidfd, so that no other can be meant, whoever gets its number later.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "cli/cli.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting stop_settings[] = {
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR", "Data directory of the server" },
	{ "sandboxes", SETTING_BOOL, "false", NULL,
	  "End the sandboxes too, ordinary Pods before critical ones, as cay serve --stop-sandboxes does" },
	{ "timeout", SETTING_DURATION, "2m", "TIME", "How long to wait until it has ended",
	  .max = 2 * 3600000 },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json or yaml (short: -o)", .choices = formats },
	{ 0 },
};

enum {
	EXIT_NO_SERVER = 3, /* nobody has the directory */
	EXIT_STILL = 4,     /* it was asked to end, and has not in time */
};

/* Whether a signal would not kill a process: it handles it, or ignores it because it is ending. */
static bool withstands(pid_t pid, int signum)
{
	static const char *const masks[] = { "\nSigIgn:", "\nSigCgt:" };
	autofree char *path = xasprintf("/proc/%d/status", (int)pid), *text = NULL;
	unsigned long long mask = 0, all = 0;
	size_t len;

	err_free(file_read(AT_FDCWD, path, 64 * 1024, &text, &len)); /* it may have ended */
	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		const char *at = text ? strstr(text, masks[i]) : NULL;

		if (at && sscanf(at + strlen(masks[i]), "%llx", &mask) == 1)
			all |= mask;
	}
	return all >> (signum - 1) & 1;
}

static struct err *ask_to_end(const struct cli_holder *h, bool sandboxes)
{
	int signum = sandboxes ? SIGUSR1 : SIGTERM;

	if (str_starts(h->text, "cay restore"))
		return err_new(ERR_CONFLICT,
			       "%s has the directory, and no server; it ends by itself", h->text);
	if (sandboxes && !withstands(h->pid, signum))
		return err_new(ERR_UNSUPPORTED,
			       "%s is of an earlier version, which does not end its sandboxes on "
			       "request: stop it without --sandboxes, start this version, and stop "
			       "that one",
			       h->text);
	if (syscall(SYS_pidfd_send_signal, h->pidfd, signum, NULL, 0) < 0 && errno != ESRCH)
		return err_sys(errno, "send a signal to %s", h->text);
	return NULL;
}

/* True if it has ended. */
static bool wait_for(int pidfd, int64_t timeout_ms)
{
	usec end = clock_mono() + timeout_ms * 1000;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		int64_t left = (end - clock_mono() + 999) / 1000;
		int n = poll(&p, 1, (int)MAX(left, (int64_t)0));

		if (n > 0)
			return true;
		if (n == 0 && left <= 0)
			return false;
	}
}

/* How many Pods have control groups; -1: unknown. */
static int count_sandboxes(const char *data_dir)
{
	autoptr(json_doc) doc = NULL;
	struct map *pods = map_new(NULL);
	size_t orphans = 0;
	struct err *e = cli_node.census(data_dir, &doc, &orphans);
	int n;

	json_each(it, e ? NULL : json_get(json_root(doc), "items")) {
		const char *owner = json_get_str(it.val, "owner");

		if (str_eq(json_get_str(it.val, "type"), "cgroup") && owner && strchr(owner, '/'))
			map_put(pods, owner, pods);
	}
	n = e ? -1 : (int)map_len(pods);
	err_free(e);
	map_free(pods);
	return n;
}

static void print_text(const struct cli_holder *h, int n)
{
	autobuf out = { 0 };

	buf_printf(&out, "stopped %s\n", h->text);
	if (n > 0)
		buf_printf(&out, "%d sandbox%s live%s on; the next start finds %s again\n", n,
			   n == 1 ? "" : "es", n == 1 ? "s" : "", n == 1 ? "it" : "them");
	else if (!n)
		buf_add_str(&out, "no sandbox is running\n");
	cli_write(&out);
}

/* n: how many sandboxes live on; -1: unknown. */
static void tell(const struct settings *s, const struct cli_holder *h, bool ended, int n)
{
	const char *format = settings_text(s, "output");
	autoptr(json_doc) d = json_doc_new();

	if (str_eq(format, "text")) {
		if (ended)
			print_text(h, n);
		return;
	}
	json_set_root(d, json_obj(d));
	json_set_int(d, json_root(d), "pid", h->pid);
	json_set_bool(d, json_root(d), "stopped", ended);
	if (n >= 0)
		json_set_int(d, json_root(d), "sandboxes", n);
	cli_print(json_root(d), format);
}

static int no_server(const char *dir)
{
	int n = count_sandboxes(dir);

	if (n > 0)
		(void)cli_fail(err_new(ERR_NOT_FOUND,
				       "stop: no server has %s; %d sandboxes live on, and end with "
				       "`cay serve` and then `cay stop --sandboxes`",
				       dir, n));
	else
		(void)cli_fail(err_new(ERR_NOT_FOUND, "stop: no server has %s", dir));
	return EXIT_NO_SERVER;
}

/* What came of it, as an exit status. */
static int judge(const struct settings *s, const struct cli_holder *h, bool ended, int n)
{
	if (!ended) {
		(void)cli_fail(err_new(ERR_TIMEOUT,
				       "stop: %s has not ended after %s, and goes on ending; run "
				       "`cay stop` again not to wait for sandboxes that are being "
				       "removed",
				       h->text, settings_text(s, "timeout")));
		return EXIT_STILL;
	}
	if (settings_bool(s, "sandboxes") && n > 0)
		return cli_fail(err_new(ERR_UNAVAILABLE,
					"stop: %d sandboxes live on: the server had not found them "
					"yet, or was told a second time; start it again, and stop "
					"it when it serves",
					n));
	return EXIT_OK;
}

int stop_run(const struct command *c unused, const struct settings *s)
{
	const char *dir = settings_text(s, "data-dir");
	struct cli_holder h = { .pidfd = -1 };
	autoclose pidfd = -1;
	struct err *e = cli_data.holder(dir, &h);
	bool ended;
	int n;

	pidfd = h.pidfd;
	if (e)
		return cli_fail(err_wrap(e, "stop"));
	if (!h.pid)
		return no_server(dir);
	e = ask_to_end(&h, settings_bool(s, "sandboxes"));
	if (e)
		return cli_fail(err_wrap(e, "stop"));
	ended = wait_for(pidfd, settings_int(s, "timeout"));
	n = ended ? count_sandboxes(dir) : -1;
	tell(s, &h, ended, n);
	return judge(s, &h, ended, n);
}
