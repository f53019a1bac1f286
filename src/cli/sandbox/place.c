/* SPDX-License-Identifier: Apache-2.0 */
/* The two sides of `cay cp`, as text. */
#include "base/mem.h"
#include "base/str.h"
#include "cli/sandbox/cp_priv.h"

struct err *place_parse(const char *text, struct place *ret)
{
	const char *colon = strchr(text, ':');
	const char *slash = strchr(text, '/');

	if (!*text || colon == text)
		return err_new(ERR_INVALID, "\"%s\": use PATH or NAME:PATH", text);
	if (!colon || (slash && slash < colon)) {
		*ret = (struct place){ .path = xstrdup(text) };
		return NULL;
	}
	if (!colon[1])
		return err_new(ERR_INVALID, "\"%s\": there is no path after the colon", text);
	*ret = (struct place){ .name = xstrndup(text, (size_t)(colon - text)),
			       .path = xstrdup(colon + 1) };
	return NULL;
}

void place_done(struct place *p)
{
	free(p->name);
	free(p->path);
	*p = (struct place){ 0 };
}

void place_split(const char *path, char **ret_dir, char **ret_base)
{
	size_t len = strlen(path);
	const char *slash;

	while (len > 1 && path[len - 1] == '/')
		len--;
	slash = memrchr(path, '/', len);
	*ret_base =
		slash ? xstrndup(slash + 1, len - (size_t)(slash - path) - 1) : xstrndup(path, len);
	if (!slash)
		*ret_dir = xstrdup(".");
	else if (slash == path)
		*ret_dir = xstrdup("/");
	else
		*ret_dir = xstrndup(path, (size_t)(slash - path));
	if (!**ret_base || str_eq(*ret_base, "..")) { /* the root, or a name that is elsewhere */
		free(*ret_dir);
		free(*ret_base);
		*ret_dir = xstrndup(path, len);
		*ret_base = xstrdup(".");
	}
}
