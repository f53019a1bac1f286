/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/leftover.h"

/*
 * Where sandboxes are tried. The node has them write to its disk pool. Where that is mounted, they
 * are tried there, and otherwise next to it, in the data directory. Not every file system will do,
 * such as the overlay that is the root of a container: there they are tried in a disk of the kind
 * that the node would make, in a mount namespace of the doctor's own. It is thrown away.
 */
static char *find_place(const char *data_dir)
{
	autoptr(diskpool) disk = diskpool_look(data_dir);
	autofree char *slots = diskpool_dir(disk, INSTANCE_SLOTS);

	return access(slots, F_OK) ? diskpool_existing(data_dir) : take(slots);
}

void doctor_place_open(struct doctor *d)
{
	d->place = find_place(d->data_dir);
	d->work = xstrdup(d->place);
	if (!geteuid()) /* what a doctor or a janitor that was killed has left */
		leftovers_remove(d->place, DOCTOR_DIR);
}

static bool would_make_disk(const struct doctor *d)
{
	autoptr(diskpool) disk = diskpool_look(d->data_dir);
	autofree char *obstacle = diskpool_obstacle(disk);

	return !obstacle;
}

bool doctor_place_make_disk(struct doctor *d)
{
	autofree char *dir = xasprintf("%s/" DOCTOR_DIR "%d", d->place, (int)getpid());
	autofree char *at = NULL;
	struct err *e;

	if (d->trial || !would_make_disk(d) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0 || mkdir(dir, 0700) < 0)
		return false;
	e = trial_disk_mount(dir, &at);
	if (e) { /* the node would go on with plain directories */
		err_free(e);
		(void)rmdir(dir);
		return false;
	}
	d->trial = take(dir);
	free(d->work);
	d->work = take(at);
	return true;
}

void doctor_place_clean(const struct doctor *d)
{
	if (!d->trial)
		return;
	trial_disk_unmount(d->trial);
	err_free(file_remove_tree(AT_FDCWD, d->trial));
}

void doctor_place_done(struct doctor *d)
{
	doctor_place_clean(d);
	free(d->trial);
	free(d->work);
	free(d->place);
}
