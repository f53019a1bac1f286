/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct jobs;

/*
 * Removes a file or a directory with all that is in it, as a job. What cannot be removed is logged
 * and left to the next start, which removes whatever has no owner. Takes path over.
 */
void trash_remove(struct jobs *jobs, char *path);
