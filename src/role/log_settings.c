/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/str.h"
#include "role/log_settings_priv.h"

const char *const log_levels[] = { "debug", "info", "warn", "error", NULL };
const char *const log_formats[] = { "text", "json", NULL };

void log_setup_from(const struct settings *s)
{
	enum log_level level = LOG_LEVEL_INFO;

	for (size_t i = 0; log_levels[i]; i++)
		if (str_eq(log_levels[i], settings_text(s, "log-level")))
			level = (enum log_level)i;
	log_setup(level, str_eq(settings_text(s, "log-format"), "json") ? LOG_FORMAT_JSON
									: LOG_FORMAT_TEXT);
}
