/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/cgroup.h"
#include "node/node.h"
#include "node/runtime/native.h"

/*
 * The features of the kernel, as the node itself finds them out at its start
 * (node/host/features.h), on the file system that its sandboxes write to.
 */
static struct err *probe(struct doctor *d)
{
	autofree char *group = d->groups ? cgroups_v2_dir(d->groups) : NULL;
	const struct features_spec spec = { .launcher = d->spec->launcher,
					    .dir = d->work,
					    .group = group,
					    .last_id = native_last_id() };

	features_done(&d->features);
	return features_probe(&spec, &d->features);
}

/* What the file system of the place lacks, that of the disk pool may have. */
static bool disk_matters(const struct doctor *d)
{
	return !features_have(&d->features, FEATURE_OVERLAY) ||
	       !features_have(&d->features, FEATURE_IDMAP_DISK);
}

static struct err *try_features(struct doctor *d)
{
	struct err *e;

	if (geteuid())
		return err_new(ERR_FORBIDDEN, "not running as root");
	if (!d->spec->launcher)
		return err_new(ERR_NOT_FOUND, "there is no cay-launch beside this program");
	e = probe(d);
	if (!e && disk_matters(d) && doctor_place_make_disk(d))
		e = probe(d);
	return e ? e : features_drop(&d->features, d->spec->without_features);
}

/* The node goes on without what stands in for it, too; it is what makes the difference. */
static bool say_no_memory_disk(struct doctor *d, const char *name)
{
	const struct feature_info *i = feature_info(FEATURE_IDMAP_TMPFS);
	autoptr(err) e = doctor_try_memory_disk();

	if (e)
		doctor_say(
			d, name, VERDICT_WARN,
			xasprintf("the kernel does not have %s (%s), and an ext4 in memory "
				  "cannot be used instead (%s): files of Secrets and ConfigMaps "
				  "belong to nobody inside, so those of a mode such as 0400 cannot "
				  "be read",
				  i->what,
				  str_or(d->features.why[FEATURE_IDMAP_TMPFS], "was not tried"),
				  err_text(e)),
			xasprintf("install e2fsprogs and provide /dev/loop-control; or %s",
				  i->fix));
	return e;
}

static void say(struct doctor *d, enum feature f)
{
	const struct feature_info *i = feature_info(f);
	autofree char *name = xasprintf("feature-%s", i->name);

	if (features_have(&d->features, f))
		doctor_say(d, name, VERDICT_OK, xasprintf("the kernel has %s", i->what), NULL);
	else if (f == FEATURE_IDMAP_TMPFS && say_no_memory_disk(d, name))
		return;
	else if (!features_lack(&d->features, f))
		doctor_say(d, name, VERDICT_OK,
			   xasprintf("the kernel does not have %s, and need not", i->what), NULL);
	else
		doctor_say(d, name, i->needed ? VERDICT_FAIL : VERDICT_WARN,
			   xasprintf("the kernel does not have %s (%s): %s", i->what,
				     str_or(d->features.why[f], "was not tried"), i->without),
			   xstrdup(i->fix));
}

void check_features(struct doctor *d)
{
	struct err *e = try_features(d);

	d->tried = !e;
	for (enum feature f = 0; f < FEATURE_MAX_ && !e; f++)
		say(d, f);
	if (e)
		doctor_say(d, "features", VERDICT_FAIL,
			   xasprintf("what the kernel can do was not tried: %s", err_text(e)),
			   xstrdup("run cay doctor as root, with cay-launch where the package puts "
				   "it"));
	err_free(e);
}
