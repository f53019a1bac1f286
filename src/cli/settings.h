/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

/*
 * Settings: one row each, and everything else derived from it: the flag --data-dir, the variable
 * CAY_DATA_DIR, the config-file key data-dir, the default, --help and the man page. A flag wins
 * over the variable, that over the file, that over the default.
 */
enum setting_type {
	SETTING_TEXT,
	SETTING_INT,      /* min..max */
	SETTING_BOOL,     /* --x, --x=false */
	SETTING_DURATION, /* 500ms 2s 5m; read as milliseconds */
	SETTING_ADDRESS,  /* 127.0.0.1:6443 or [::1]:80; port 0 is any */
	SETTING_CHOICE,   /* one of choices */
	SETTING_TYPE_MAX_,
};

struct setting {
	const char *name;
	enum setting_type type;
	const char *fallback; /* as text; NULL: none */
	const char *value;    /* what help calls it: DIR */
	const char *help;
	int64_t min, max;
	const char *const *choices; /* NULL-terminated */
};

struct settings;

/*
 * Reads flags from argv (argv[0] is skipped), variables, and the file that --config or CAY_CONFIG
 * names. What is not a flag is kept as an argument; "--" ends the flags. ERR_INVALID names the flag
 * and what it takes.
 */
must_use struct err *settings_read(const struct setting *table, int argc, char **argv,
				   struct settings **ret);
void settings_free(struct settings *s);
AUTOPTR(settings)

bool settings_help_wanted(const struct settings *s); /* -h or --help was there */
const char *settings_text(const struct settings *s,
			  const char *name); /* NULL when unset; asserts that the name exists */
int64_t settings_int(const struct settings *s,
		     const char *name); /* also milliseconds of durations */
bool settings_bool(const struct settings *s, const char *name);
size_t settings_n_args(const struct settings *s);
const char *settings_arg(const struct settings *s, size_t i); /* NULL past the end */

void settings_help(const struct setting *table, struct buf *out); /* the flag part of --help */
void settings_man(const struct setting *table, struct buf *out);  /* the same as roff */
