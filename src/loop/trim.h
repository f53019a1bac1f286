/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct loop;

/*
 * Gives memory back to the kernel after a peak. The allocator keeps what was freed in the middle of
 * its heap, so that a daemon that was busy once would stay large for ever. Looked at every few
 * seconds: when the process has grown since the last time and has stopped growing, a job asks the
 * allocator to let go of its free pages.
 */
struct trim;
struct trim *trim_new(struct loop *l);
void trim_free(struct trim *t); /* waits for its job */
