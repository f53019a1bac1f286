/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <math.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

/*
 * A line is built in memory and written with a single write(), so that the lines of threads and
 * processes that share standard error do not mix. Values may come from strangers: everything that
 * could end a line or move a terminal's cursor is escaped, and long values are cut.
 */
enum {
	MAX_VALUE = 4096,
};

static _Atomic int least_level = LOG_LEVEL_INFO;
static _Atomic int line_format = LOG_FORMAT_TEXT;

static const char *const level_names[LOG_LEVEL_MAX_] = {
	[LOG_LEVEL_DEBUG] = "debug",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_ERROR] = "error",
};

void log_setup(enum log_level least, enum log_format format)
{
	atomic_store(&least_level, (int)least);
	atomic_store(&line_format, (int)format);
}

bool log_enabled(enum log_level level)
{
	return (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

static void add_escaped_char(struct buf *line, char c)
{
	switch (c) {
	case '"':
		buf_add_str(line, "\\\"");
		return;
	case '\\':
		buf_add_str(line, "\\\\");
		return;
	case '\n':
		buf_add_str(line, "\\n");
		return;
	case '\t':
		buf_add_str(line, "\\t");
		return;
	default:
		if ((unsigned char)c < 0x20 || c == 0x7f)
			buf_printf(line, "\\u%04x", (unsigned char)c);
		else
			buf_add_char(line, c);
	}
}

/* Adds a JSON string. Bytes that are not UTF-8 become U+FFFD. */
static void add_quoted(struct buf *line, const char *s)
{
	size_t len = strlen(s), end = MIN(len, (size_t)MAX_VALUE);

	buf_add_char(line, '"');
	for (size_t at = 0; at < end;) {
		size_t good = utf8_prefix(s + at, end - at);

		for (size_t i = 0; i < good; i++)
			add_escaped_char(line, s[at + i]);
		at += good;
		if (at < end) {
			buf_add_str(line, "\xef\xbf\xbd");
			at++;
		}
	}
	if (end < len)
		buf_add_str(line, "...");
	buf_add_char(line, '"');
}

/* True if a value needs no quotes in the text format. */
static bool is_plain(const char *s)
{
	size_t len = strlen(s);

	if (!len || len > MAX_VALUE)
		return false;
	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~' || s[i] == '"' || s[i] == '=' || s[i] == '\\')
			return false;
	return true;
}

static void add_text_value(struct buf *line, const char *s, bool json)
{
	if (!s)
		buf_add_str(line, json ? "null" : "-");
	else if (!json && is_plain(s))
		buf_add_str(line, s);
	else
		add_quoted(line, s);
}

static void add_value(struct buf *line, const struct log_kv *kv, bool json)
{
	switch (kv->type) {
	case LOG_KV_STR:
		add_text_value(line, kv->s, json);
		return;
	case LOG_KV_INT:
		buf_printf(line, "%lld", (long long)kv->i);
		return;
	case LOG_KV_UINT:
		buf_printf(line, "%llu", (unsigned long long)kv->u);
		return;
	case LOG_KV_BOOL:
		buf_add_str(line, kv->b ? "true" : "false");
		return;
	case LOG_KV_REAL:
		if (isfinite(kv->d))
			buf_printf(line, "%.9g", kv->d);
		else
			buf_add_str(line, "null");
		return;
	case LOG_KV_ERR:
		add_text_value(line, kv->e ? err_text(kv->e) : NULL, json);
		return;
	}
}

static void build_text(struct buf *line, enum log_level level, const char *msg)
{
	char when[CLOCK_TEXT_MAX];

	clock_format_micro(clock_wall(), when);
	buf_printf(line, "%s %-5s %s", when, level_names[level], msg);
}

static void build_json(struct buf *line, enum log_level level, const char *msg)
{
	char when[CLOCK_TEXT_MAX];

	clock_format_micro(clock_wall(), when);
	buf_printf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":", when, level_names[level]);
	add_quoted(line, msg);
}

void log_write(enum log_level level, const char *msg, const struct log_kv *kv, unsigned n_kv)
{
	bool json = atomic_load(&line_format) == LOG_FORMAT_JSON;
	autobuf line = { 0 };

	if (json)
		build_json(&line, level, msg);
	else
		build_text(&line, level, msg);
	for (unsigned i = 0; i < n_kv; i++) {
		if (json) {
			buf_add_char(&line, ',');
			add_quoted(&line, kv[i].key);
			buf_add_char(&line, ':');
		} else {
			buf_printf(&line, " %s=", kv[i].key);
		}
		add_value(&line, &kv[i], json);
	}
	buf_add_str(&line, json ? "}\n" : "\n");
	/* If the log cannot be written, there is nowhere to report that. */
	(void)!write(STDERR_FILENO, buf_head(&line), line.len);
}
