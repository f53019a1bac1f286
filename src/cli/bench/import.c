/* SPDX-License-Identifier: Apache-2.0 */
/* An image archive that is imported, beside skopeo and umoci with the same one (bench/import). */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"

enum {
	RUNS_MAX = 5,
};

static struct row *add(struct bench *b, const struct json *all, const char *name, const char *what,
		       struct row *ours)
{
	const struct json *found = json_get(all, name);
	autofree char *row_name = xasprintf("import by %s", name);
	double us, bytes = (double)json_get_int(all, "bytes", 0);
	struct row *row;

	if (!json_get(found, "us")) {
		(void)fprintf(stderr, "cay: bench: import: %s is left out: %s\n", name,
			      str_or(json_get_str(found, "missing"), "it was not measured"));
		return NULL;
	}
	row = bench_row(b, "import", row_name, NULL, what);
	row_peer(row, json_get(found, "us"), ours);
	row_figure(row, "mb", bytes / 1e6);
	if (samples_quantile(&row->us, 0.5, &us))
		row_figure(row, "mb_per_s", bytes / us);
	return row;
}

struct err *scenario_import(struct bench *b)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	autofree char *mb = xasprintf("%lld", (long long)settings_int(b->settings, "import-mb"));
	const char *const more[] = { self, mb, NULL };
	unsigned n = (unsigned)MIN(settings_int(b->settings, "runs"), (int64_t)RUNS_MAX);
	autoptr(json_doc) all = NULL;
	struct row *ours;
	struct err *e;

	self[MAX(len, (ssize_t)0)] = '\0';
	e = program_measure(b, "import", n, more, &all);
	if (e) {
		(void)fprintf(stderr, "cay: bench: import: left out: %s\n", err_text(e));
		err_free(e);
		return NULL;
	}
	ours = add(b, json_root(all), "cay",
		   "oci-archive of one layer (gzip): digests verified, unpacked, on disk", NULL);
	(void)add(b, json_root(all), "skopeo+umoci", "the same archive, copied and unpacked", ours);
	return NULL;
}
