/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

/*
 * Settings: one row each, from which everything else is derived: the flag --data-dir, the variable
 * CAY_DATA_DIR, the config-file key data-dir, the default, --help and the man page. A flag takes
 * precedence over the variable, the variable over the file, and the file over the default.
 */
enum setting_type {
	SETTING_TEXT,
	SETTING_INT,      /* min..max */
	SETTING_BOOL,     /* --x, --x=false */
	SETTING_SIZE,     /* 500Mi 10Gi 1e9; kept as bytes, min..max */
	SETTING_DURATION, /* 500ms 2s 5m; kept as milliseconds, at most max unless that is 0 */
	SETTING_ADDRESS,  /* 127.0.0.1:6443 or [::1]:80; port 0: any free port */
	SETTING_CHOICE,   /* one of choices */
	SETTING_LIST,     /* text; the flag may be given again, which adds to it */
	SETTING_DIR,      /* as file_resolve() has it, whatever the working directory is later */
	SETTING_TYPE_MAX_,
};

struct setting {
	const char *name;
	enum setting_type type;
	const char *fallback; /* as text; NULL: none */
	const char *value;    /* the name of the value in --help: DIR */
	const char *help;
	int64_t min, max;
	const char *const *choices; /* NULL-terminated */
	char letter;                /* -o for --output; 0: none */
	const char *env;            /* a second variable, read if CAY_X is not set; NULL: none */
};

struct settings;

/*
 * Reads flags from argv (skipping argv[0]), variables, and the file that --config or CAY_CONFIG
 * names. What is not a flag is kept as an argument; "--" ends the flags. ERR_INVALID names the flag
 * and the values that it accepts.
 */
must_use struct err *settings_read(const struct setting *table, int argc, char **argv,
				   struct settings **ret);
void settings_free(struct settings *s);
AUTOPTR(settings)

bool settings_help_wanted(const struct settings *s); /* -h or --help was given */
/* NULL if unset; asserts that the name exists. */
const char *settings_text(const struct settings *s, const char *name);
/* For durations, milliseconds; for sizes, bytes. 0 if unset and without a default. */
int64_t settings_int(const struct settings *s, const char *name);
bool settings_bool(const struct settings *s, const char *name);
/* Of a list, from 0 on; NULL past the end. */
const char *settings_nth(const struct settings *s, const char *name, size_t i);
size_t settings_n_args(const struct settings *s);
const char *settings_arg(const struct settings *s, size_t i); /* NULL past the end */

void settings_help(const struct setting *table, struct buf *out); /* as in --help */
void settings_man(const struct setting *table, struct buf *out);  /* the same as roff */
