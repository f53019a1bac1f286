/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Random bytes from the kernel; never fails. */
void random_bytes(void *p, size_t len);

/*
 * For names and delays, not for keys: these come from a supply of the thread, and two processes
 * after a fork() would have the same.
 */
uint64_t random_u64(void);
void random_hex(char *ret, size_t n_digits); /* writes n_digits + 1 bytes */
void random_uuid(char ret[37]);              /* version 4, lower case */
/* From bcdfghjklmnpqrstvwxz2456789; writes n_chars + 1 bytes. */
void random_suffix(char *ret, size_t n_chars);
