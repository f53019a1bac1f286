/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "mcp/mcp_priv.h"

/*
 * The path of a file that approval rules decide about. What they see is an absolute path without
 * detours; what the sandbox is told to use is that path and no other, and the sandbox refuses it if
 * anything on the way there is a symbolic link. So the path that was decided about, or shown to
 * whoever approved it, is the file's own.
 *
 * The check runs in the sandbox, where the links are: $1 is the path. It climbs to the last part
 * that exists. That must not be a link, and the directory that it is in must be called what the
 * path says. The dot keeps line breaks at the end of a name.
 */
const char path_check[] =
	"a=$1\n"
	"while [ ! -e \"$a\" ] && [ ! -L \"$a\" ]; do a=${a%/*}; [ -n \"$a\" ] || a=/; done\n"
	"d=${a%/*}; [ -n \"$d\" ] || d=/\n"
	"if [ -L \"$a\" ] || [ \"$(cd -P -- \"$d\" && pwd -P; echo .)\" != \"$d\n.\" ]; then\n"
	"r=$(readlink -f -- \"$1\" 2>/dev/null)\n"
	"echo \"approval rules decide by the real path: $1 leads to ${r:-another place}\" >&2\n"
	"exit 1; fi\n";

char *path_normal(const char *path)
{
	struct span rest = SPAN(path), part;
	char *out;
	size_t len = 0;

	if (path[0] != '/')
		return NULL;
	out = xmalloc(strlen(path) + 1);
	while (rest.p) {
		part = span_cut(rest, '/', &rest);
		if (span_eq(part, "..")) {
			while (len && out[len - 1] != '/')
				len--;
			len -= len > 0;
		} else if (part.len && !span_eq(part, ".")) {
			out[len++] = '/';
			memcpy(out + len, part.p, part.len);
			len += part.len;
		}
	}
	if (!len)
		out[len++] = '/';
	out[len] = '\0';
	return out;
}
