/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/settings.h"

/* Rows that every role has among its settings. */
extern const char *const log_levels[], *const log_formats[];

/* env: a second variable that may name the file, or NULL. */
#define LOG_SETTINGS_ENV(env_)                                                           \
	{ "log-level",                                                                   \
	  SETTING_CHOICE,                                                                \
	  "info",                                                                        \
	  "LEVEL",                                                                       \
	  "Least severe messages to log: debug, info, warn or error",                    \
	  .choices = log_levels },                                                       \
		{ "log-format",                                                          \
		  SETTING_CHOICE,                                                        \
		  "text",                                                                \
		  "FORMAT",                                                              \
		  "Format of the log: text or json",                                     \
		  .choices = log_formats },                                              \
	{                                                                                \
		"config", SETTING_TEXT, NULL, "FILE", "YAML file to read settings from", \
			.env = (env_)                                                    \
	}
#define LOG_SETTINGS LOG_SETTINGS_ENV(NULL)

void log_setup_from(const struct settings *s);
