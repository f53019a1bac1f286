/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct loop;

/*
 * Gives memory back to the kernel after a peak. The allocator keeps what was freed in the middle of
 * its heap, so that a daemon that was busy once would stay large for ever. When the process has
 * been busy and is no longer, a job compares what is resident with what is in use, and if there is
 * more of a difference than before, asks the allocator to let go of its free pages. One that stays
 * busy for a minute or more is looked at then, and trimmed only if it is worth the delay.
 */
struct trim;
struct trim *trim_new(struct loop *l, unsigned look_ms); /* how often it looks */
void trim_free(struct trim *t);                          /* waits for its job */
