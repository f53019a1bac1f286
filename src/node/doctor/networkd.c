/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/doctor/doctor_priv.h"

/*
 * systemd-networkd configures every link that one of its .network files matches, and takes away
 * what others have set on it. The links of sandboxes are none of its business: as it ships, no file
 * matches them, but one with Name=* does. Which file applies to a link is looked up as networkd
 * does it: a file hides those of its name in directories that come later, and of the rest the first
 * that matches, in the order of the names, decides. Drop-ins (x.network.d) are not read.
 */
enum {
	FILES_MAX = 1000, /* in a directory */
	FILE_MAX = 65536, /* bytes */
};

static const char *const dirs[] = { "/etc/systemd/network", "/run/systemd/network",
				    "/usr/local/lib/systemd/network", "/usr/lib/systemd/network" };

/* A link that a sandbox could have (node/host/instance.h), and as what networkd sees it. */
static const struct {
	const char *key, *value;
} link_is[] = {
	{ "Name", "cay0f1e2d3c" }, { "Type", "ether" }, { "Kind", "veth" }, { "Driver", "veth" }
};

/* By these a file matches certain devices, of which ours are none. */
static const char *const of_others[] = {
	"MACAddress",   "PermanentMACAddress", "Path", "Property", "SSID", "BSSID",
	"OriginalName", "WLANInterfaceType",   NULL
};

struct network_file {
	char section[32];
	bool named[ARRAY_LEN(link_is)];    /* a list of it has patterns that are not negated */
	bool matched[ARRAY_LEN(link_is)];  /* one of those matches */
	bool excluded[ARRAY_LEN(link_is)]; /* a negated one does */
	bool says, other, unmanaged;
};

/* A list that begins with "!" is negated as a whole, and so is a word that does. */
static void read_patterns(struct network_file *f, size_t i, struct span value)
{
	bool all = value.len && *value.p == '!';

	if (!value.len)
		f->named[i] = f->matched[i] = f->excluded[i] = false;
	if (all)
		value = (struct span){ value.p + 1, value.len - 1 };
	while (value.p) {
		struct span word = span_trim(span_cut(value, ' ', &value));
		autofree char *pattern = xasprintf("%.*s", (int)word.len, word.len ? word.p : "");
		bool negated = all || *pattern == '!';
		bool hit = !fnmatch(pattern + (*pattern == '!'), link_is[i].value, 0);

		if (!word.len)
			continue;
		f->says = true;
		f->named[i] |= !negated;
		f->matched[i] |= !negated && hit;
		f->excluded[i] |= negated && hit;
	}
}

static void read_line(struct network_file *f, struct span line)
{
	struct span value, key;

	if (!line.len || *line.p == '#' || *line.p == ';')
		return;
	if (*line.p == '[') {
		(void)snprintf(f->section, sizeof(f->section), "%.*s", (int)line.len, line.p);
		return;
	}
	key = span_trim(span_cut(line, '=', &value));
	if (!value.p)
		return;
	value = span_trim(value);
	if (str_eq(f->section, "[Link]") && span_eq(key, "Unmanaged"))
		f->unmanaged = span_eq_nocase(value, "yes") || span_eq_nocase(value, "true") ||
			       span_eq_nocase(value, "on") || span_eq(value, "1");
	if (!str_eq(f->section, "[Match]"))
		return;
	for (size_t i = 0; i < ARRAY_LEN(link_is); i++)
		if (span_eq(key, link_is[i].key))
			read_patterns(f, i, value);
	for (size_t i = 0; of_others[i]; i++)
		f->other |= span_eq(key, of_others[i]);
}

/* One without any [Match] is ignored by networkd, and one of size 0 is there to hide others. */
static bool matches(const struct network_file *f)
{
	bool all = f->says && !f->other;

	for (size_t i = 0; i < ARRAY_LEN(link_is); i++)
		all = all && !f->excluded[i] && (f->matched[i] || !f->named[i]);
	return all;
}

/* The file that has this name, where the first directory has it; it need not be readable. */
static struct network_file read_network(const char *name, char **ret_path)
{
	struct network_file f = { 0 };
	autofree char *path = NULL, *text = NULL;
	struct span rest;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && !path; i++) {
		autofree char *at = xasprintf("%s/%s", dirs[i], name);

		if (file_exists(AT_FDCWD, at))
			path = take(at);
	}
	if (path)
		err_free(file_read(AT_FDCWD, path, FILE_MAX, &text, NULL));
	rest = SPAN(str_or(text, ""));
	while (rest.p)
		read_line(&f, span_trim(span_cut(rest, '\n', &rest)));
	*ret_path = take(path);
	return f;
}

/* Names of all directories; some may be there twice. */
static char **list_names(size_t *ret_n)
{
	char **names = xnew_n(char *, ARRAY_LEN(dirs) * FILES_MAX);
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		DIR *d = opendir(dirs[i]);
		const struct dirent *de;

		while (d && n < (i + 1) * FILES_MAX && (de = readdir(d)))
			if (str_ends(de->d_name, ".network"))
				names[n++] = xstrdup(de->d_name);
		if (d)
			(void)closedir(d);
	}
	str_sort(names, n);
	*ret_n = n;
	return names;
}

/* The path of the file by which networkd manages the links of sandboxes; NULL: there is none. */
static char *find_manager(void)
{
	size_t n;
	char **names = list_names(&n), *found = NULL;
	bool decided = false;

	for (size_t i = 0; i < n; i++) {
		autofree char *path = NULL;
		struct network_file f = { 0 };

		if (!decided)
			f = read_network(names[i], &path);
		if (matches(&f)) {
			decided = true;
			found = f.unmanaged ? NULL : take(path);
		}
		free(names[i]);
	}
	free(names);
	return found;
}

void check_networkd(struct doctor *d)
{
	autofree char *path = find_manager();

	doctor_say(d, "networkd", path ? VERDICT_WARN : VERDICT_OK,
		   path ? xasprintf("%s matches the links of sandboxes, so systemd-networkd "
				    "configures and resets them where it runs",
				    path)
			: xstrdup("no file of systemd-networkd matches the links of sandboxes"),
		   xstrdup("exclude cay* in its [Match]; or make /etc/systemd/network/"
			   "00-cay.network with [Match] Name=cay* and [Link] Unmanaged=yes; then "
			   "networkctl reload"));
}
