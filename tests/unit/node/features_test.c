/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/features.h"

#include "base/mem.h"
#include "test.h"

static struct features all(void)
{
	return (struct features){ .have = (1u << FEATURE_MAX_) - 1 };
}

TEST(names_of_features_say_what_there_is)
{
	struct features fs = all(), back;
	autofree char *names = NULL;

	works(features_drop(&fs, "overlay-append,idmap-disk"));
	names = features_names(&fs);
	back = features_named(names);
	eq_int(back.have, fs.have);
	is_true(!features_have(&back, FEATURE_IDMAP_DISK) && features_have(&back, FEATURE_PTY));
	eq_int(features_named("").have, 0);
	eq_int(features_named("pty,of another version").have, 1u << FEATURE_PTY);
	features_done(&fs);
}

TEST(every_feature_has_a_name_and_says_what_to_do)
{
	for (enum feature f = 0; f < FEATURE_MAX_; f++) {
		const struct feature_info *i = feature_info(f);

		is_true(i->name && i->what && i->without && i->fix);
		eq_int(features_named(i->name).have, 1u << f);
	}
}

TEST(a_feature_that_is_unknown_is_refused)
{
	struct features fs = all();

	works(features_check_names(NULL));
	works(features_check_names(""));
	fails(features_check_names("pty,"), ERR_INVALID);
	fails(features_drop(&fs, "warp"), ERR_INVALID);
	eq_int(fs.have, all().have);
}

TEST(only_what_is_needed_keeps_a_node_from_starting)
{
	for (enum feature f = 0; f < FEATURE_MAX_; f++) {
		struct features fs = all();

		features_note(&fs, f, err_new(ERR_UNSUPPORTED, "no"));
		is_true(!features_have(&fs, f));
		if (feature_info(f)->needed)
			fails(features_enough(&fs), ERR_UNSUPPORTED);
		else
			works(features_enough(&fs));
		features_done(&fs);
	}
}

TEST(who_holds_a_socket_is_asked_only_where_sockets_do_not_tell)
{
	struct features fs = all();

	works(features_drop(&fs, "unix-diag"));
	is_true(!features_lack(&fs, FEATURE_UNIX_DIAG));
	works(features_drop(&fs, "peer-pidfd"));
	is_true(features_lack(&fs, FEATURE_UNIX_DIAG) && features_lack(&fs, FEATURE_PEER_PIDFD));
	features_done(&fs);
}

TEST(a_probe_that_cannot_be_run_is_an_error)
{
	const struct features_spec spec = { .launcher = "/no/such/launcher",
					    .dir = "/tmp",
					    .last_id = 65536 };
	const struct features_spec silent = { .launcher = "/bin/true",
					      .dir = "/tmp",
					      .last_id = 65536 };
	struct features fs = { 0 };

	fails(features_probe(&spec, &fs), ERR_NOT_FOUND);
	fails(features_probe(&silent, &fs), ERR_MALFORMED);
}
