/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A disk for tests that loses power and runs full, below SQLite and the store alike. It replaces
 * fsync(), fdatasync() and statvfs() for the whole test program and the system call with which
 * SQLite writes. It does nothing outside of the directory that is being watched.
 *
 * Losing power: of each file only the bytes survive that it had when it was last synced, and only
 * if its directory was synced after it had been created.
 */
void faulty_disk_watch(const char *dir); /* NULL: stop */
/* Makes the directory `to` with what would be in the watched one after a power cut. */
void faulty_disk_cut(const char *to);
/*
 * From now on a write that needs more blocks than its file has gets ENOSPC, except for room bytes
 * that removing the file `reserve` frees.
 */
void faulty_disk_fill(const char *reserve, uint64_t room);
void faulty_disk_empty(void);
/* Every write fails with EIO while on. */
void faulty_disk_break(bool on);
