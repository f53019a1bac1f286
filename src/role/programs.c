/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "api/meta.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "role/serve_priv.h"

/* A program that is installed with this one. NULL: there is none. */
static char *find_program(const char *self, const char *name)
{
	static const char *const places[] = { "", "../libexec/cay/" };
	int dir = (int)(strrchr(self, '/') + 1 - self);

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		autofree char *path = xasprintf("%.*s%s%s", dir, self, places[i], name);

		if (access(path, X_OK) == 0)
			return take(path);
	}
	return NULL;
}

static struct err *find_self(char ret[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", ret, PATH_MAX - 1);

	if (len < 0)
		return err_sys(errno, "read /proc/self/exe");
	ret[len] = '\0';
	return NULL;
}

void programs_look(char **ret_launcher, char **ret_init)
{
	char self[PATH_MAX];
	autoptr(err) e = find_self(self);

	*ret_launcher = e ? NULL : find_program(self, "cay-launch");
	*ret_init = e ? NULL : find_program(self, "cay-init");
}

struct err *serve_find_programs(struct serve *s)
{
	const char *given = settings_text(s->settings, "init");
	char self[PATH_MAX];
	struct err *e = find_self(self);

	if (e)
		return e;
	s->launcher = find_program(self, "cay-launch");
	if (!s->launcher)
		return err_new(ERR_NOT_FOUND,
			       "there is no executable cay-launch next to or in "
			       "../libexec/cay of %s",
			       self);
	if (!given)
		s->init = find_program(self, "cay-init");
	else if (access(given, X_OK) == 0)
		s->init = xstrdup(given);
	if (!s->init)
		return err_new(
			ERR_NOT_FOUND, "there is no executable cay-init %s %s; name it with --init",
			given ? "at" : "next to or in ../libexec/cay of", given ? given : self);
	return NULL;
}

/* Linux takes host names that are no names of objects: what they must not hold becomes a dash. */
static char *name_after_host(void)
{
	char host[HOST_NAME_MAX + 1] = "cay";

	(void)gethostname(host, sizeof(host) - 1); /* on failure, "cay" is used */
	for (char *p = host; *p; p++)
		*p = isalnum((unsigned char)*p) || *p == '.' ? (char)tolower((unsigned char)*p)
							     : '-';
	return xstrdup(meta_bad_dns_subdomain(host) ? "cay" : host);
}

struct err *serve_find_node_name(struct serve *s)
{
	const char *given = settings_text(s->settings, "node-name");
	const char *bad = given ? meta_bad_dns_subdomain(given) : NULL;

	if (bad)
		return err_new(ERR_INVALID, "--node-name %s: %s", given, bad);
	s->node_name = given ? xstrdup(given) : name_after_host();
	return NULL;
}
