/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>

#include "base/err.h"
#include "base/str.h"
#include "test.h"

static char line[16384];

/* What fn writes to standard error, without the time at its beginning. */
static const char *logged(void (*fn)(void), unsigned skip_len)
{
	int fds[2], old = dup(STDERR_FILENO);
	ssize_t n;

	is_true(!pipe2(fds, O_CLOEXEC | O_NONBLOCK));
	is_true(dup2(fds[1], STDERR_FILENO) >= 0);
	fn();
	is_true(dup2(old, STDERR_FILENO) >= 0);
	n = read(fds[0], line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	close(fds[0]);
	close(fds[1]);
	close(old);
	return n > (ssize_t)skip_len ? line + skip_len : line;
}

static void log_one(void)
{
	struct err *e = err_new(ERR_GONE, "open a door");

	log_info("sandbox started", KV("sandbox", "web-1"), KV("pid", 7), KV("big", UINT64_MAX),
		 KV("ready", (bool)true), KV("took", 1.5), KV("err", e), KV("none", (char *)NULL));
	err_free(e);
}

static void log_hostile(void)
{
	log_warn("odd name", KV("name", "a\n\"b\" \\ \x1b[31m\xff="));
}

static void log_nothing(void)
{
	log_debug("not asked for", KV("n", 1));
}

static void log_long(void)
{
	char text[9000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("long", KV("text", (const char *)text));
}

TEST(a_text_line_has_its_fields)
{
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	eq_str(logged(log_one, 28),
	       "info  sandbox started sandbox=web-1 pid=7 big=18446744073709551615 ready=true "
	       "took=1.5 err=\"open a door\" none=-\n");
	eq_str(logged(log_nothing, 0), "");
}

TEST(a_stranger_cannot_forge_a_line)
{
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	eq_str(logged(log_hostile, 28),
	       "warn  odd name name=\"a\\n\\\"b\\\" \\\\ \\u001b[31m\xef\xbf\xbd=\"\n");
	is_true(strlen(logged(log_long, 28)) < 4200);
}

TEST(a_json_line_is_json)
{
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	eq_str(logged(log_one, 37),
	       ",\"level\":\"info\",\"msg\":\"sandbox started\",\"sandbox\":\"web-1\",\"pid\":7,"
	       "\"big\":18446744073709551615,\"ready\":true,\"took\":1.5,\"err\":\"open a door\","
	       "\"none\":null}\n");
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
}
