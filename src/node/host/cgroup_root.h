/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Makes room for controllers at the root of a cgroup namespace.
 *
 * A group of version 2 either has processes or hands controllers to groups below it. The root of
 * the whole hierarchy may do both, but the root that a container sees is a group like any other,
 * and the container's processes are in it. As container runtimes do when they are run in a
 * container, this moves them into the group "init" below.
 *
 * mount is where the hierarchy is mounted. At the root of the whole hierarchy nothing is done.
 * ERR_UNAVAILABLE: processes that this process cannot see are there too, or new ones kept coming.
 */
must_use struct err *cgroup_root_clear(const char *mount);
