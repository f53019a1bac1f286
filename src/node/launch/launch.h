/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/launch/message.h"
#include "node/launch/plan.h"

/*
 * The launcher, `cay-launch`: a program with one thread that the daemon starts ahead of need. It
 * makes network namespaces and slots. A slot is a process that already is pid 1 of its own
 * namespaces, sits in its own control groups, owns a user namespace with an id range of its own,
 * and waits for a plan: then it builds the root and becomes cay-init. Nothing is forked, mapped or
 * attached while a Pod waits, and no file is created on a disk that may be busy: the slot's
 * directory
 *
 *   roots/<slot>/disk/upper, work   for the overlay
 *   roots/<slot>/logs/log           for the container's output
 *
 * is made while parking, with limits on disk and logs, and so are the private socket and the
 * overlay, for the image that is expected next.
 *
 * The namespaces of a slot belong to the host's user namespace: the sandbox's root has no rights
 * over any of them.
 */
enum {
	LAUNCH_FD = 3, /* the launcher's socket */
};

/* Takes requests on LAUNCH_FD until that closes. Returns the exit code. */
int launcher_main(void);
/* `cay-launch --probe DIR LAST-ID [GROUP]`: tries what the kernel can do (node/host/features.h),
 * and prints it as an object: {"overlay":true,"overlay-append":"create overlay: Invalid argument"}.
 * group may be NULL. Returns the exit code. */
int probe_main(const char *dir, const char *last_id, const char *group);
