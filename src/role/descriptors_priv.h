/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Connections that API and router may have, so that no crowd of them takes the descriptors that the
 * store, images, launchers and guests need: half of all is for these.
 */
struct budget {
	size_t api, router; /* 0: as many as these allow by themselves */
};
/* Raises the limit of descriptors as far as it goes, and divides them. */
struct budget descriptors_budget(void);
