/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "base/tar.h"

struct err *tar_path_clean(const char *path, char **ret)
{
	struct span left = SPAN(path);
	autobuf out = { 0 };

	if (*path == '/')
		return err_new(ERR_FORBIDDEN, "entry %s: absolute names are not extracted", path);
	while (left.p) {
		struct span name = span_cut(left, '/', &left);

		if (span_eq(name, ".."))
			return err_new(ERR_FORBIDDEN, "entry %s: names with .. are not extracted",
				       path);
		if (!name.len || span_eq(name, "."))
			continue;
		if (out.len)
			buf_add_char(&out, '/');
		buf_add(&out, name.p, name.len);
	}
	*ret = buf_steal(&out, NULL);
	return NULL;
}

bool tar_link_stays(const char *path, const char *target)
{
	struct span left = SPAN(target);
	size_t depth = 0;
	bool went_down = false;

	for (; *path; path++)
		depth += *path == '/';
	if (*target == '/')
		return false;
	while (left.p) {
		struct span name = span_cut(left, '/', &left);

		if (!name.len || span_eq(name, "."))
			continue;
		if (!span_eq(name, "..")) {
			went_down = true;
			continue;
		}
		if (went_down || !depth)
			return false;
		depth--;
	}
	return true;
}
