/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct err;

/*
 * Structured logs on standard error, one line per event: text for people, JSON for machines.
 *
 *   log_info("sandbox started", KV("sandbox", sb->name), KV("pid", sb->pid));
 *
 * The message is a constant; everything variable is a field. Safe to call from any thread.
 */
enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_MAX_,
};

enum log_format {
	LOG_FORMAT_TEXT,
	LOG_FORMAT_JSON,
	LOG_FORMAT_MAX_,
};

struct log_kv {
	const char *key;
	enum {
		LOG_KV_STR,
		LOG_KV_INT,
		LOG_KV_UINT,
		LOG_KV_BOOL,
		LOG_KV_REAL,
		LOG_KV_ERR
	} type;
	union {
		const char *s;
		int64_t i;
		uint64_t u;
		bool b;
		double d;
		const struct err *e;
	};
};

void log_setup(enum log_level least, enum log_format format);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *msg, const struct log_kv *kv, unsigned n_kv);

static inline struct log_kv log_kv_str(const char *k, const char *v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_STR, .s = v };
}
static inline struct log_kv log_kv_int(const char *k, int64_t v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_INT, .i = v };
}
static inline struct log_kv log_kv_uint(const char *k, uint64_t v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_UINT, .u = v };
}
static inline struct log_kv log_kv_bool(const char *k, bool v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_BOOL, .b = v };
}
static inline struct log_kv log_kv_real(const char *k, double v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_REAL, .d = v };
}
static inline struct log_kv log_kv_err(const char *k, const struct err *v)
{
	return (struct log_kv){ .key = k, .type = LOG_KV_ERR, .e = v };
}

/* clang-format off */
#define KV(k, v) _Generic((v), \
	char *: log_kv_str, const char *: log_kv_str, \
	bool: log_kv_bool, \
	char: log_kv_int, signed char: log_kv_int, short: log_kv_int, int: log_kv_int, long: log_kv_int, long long: log_kv_int, \
	unsigned char: log_kv_uint, unsigned short: log_kv_uint, unsigned: log_kv_uint, unsigned long: log_kv_uint, unsigned long long: log_kv_uint, \
	float: log_kv_real, double: log_kv_real, \
	struct err *: log_kv_err, const struct err *: log_kv_err)((k), (v))
/* clang-format on */

#define log_at_(level, msg, ...)                                                         \
	do {                                                                             \
		if (log_enabled(level)) {                                                \
			const struct log_kv log_kvs_[] = { { 0 }, ##__VA_ARGS__ };       \
			log_write(level, "" msg, log_kvs_ + 1, ARRAY_LEN(log_kvs_) - 1); \
		}                                                                        \
	} while (0)
#define log_debug(msg, ...) log_at_(LOG_LEVEL_DEBUG, msg, ##__VA_ARGS__)
#define log_info(msg, ...)  log_at_(LOG_LEVEL_INFO, msg, ##__VA_ARGS__)
#define log_warn(msg, ...)  log_at_(LOG_LEVEL_WARN, msg, ##__VA_ARGS__)
#define log_error(msg, ...) log_at_(LOG_LEVEL_ERROR, msg, ##__VA_ARGS__)
