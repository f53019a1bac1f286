/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "test.h"

static size_t orphans;

static struct err *fake_census(const char *data_dir unused, struct json_doc **ret,
			       size_t *ret_orphans)
{
	struct json_doc *d = json_doc_new();

	json_set_root(d, json_obj(d));
	json_set(d, json_root(d), "items", json_arr(d));
	*ret = d;
	*ret_orphans = orphans;
	return NULL;
}

/* What it prints is not this program's to print. */
static int census_quietly(void)
{
	autoclose out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	autoptr(settings) s = NULL;
	int code;

	works(settings_read(census_settings, 1, (char **)(const char *[]){ "census", NULL }, &s));
	(void)fflush(stdout);
	(void)dup2(nowhere, STDOUT_FILENO);
	code = census_run(NULL, s);
	(void)dup2(out, STDOUT_FILENO);
	return code;
}

TEST(a_census_fails_when_something_has_no_owner)
{
	cli_node.census = fake_census;
	orphans = 0;
	eq_int(census_quietly(), EXIT_OK);
	orphans = 1;
	eq_int(census_quietly(), EXIT_FAILED);
}
