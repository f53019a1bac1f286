/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * Walls that a test can take down, to prove that another test notices. Only a build with
 * -Dwalls=true can: there, CAY_WALLS_DOWN names the walls that are down, separated by commas. In
 * any other build every wall stands, the question costs nothing, and the variable is not read.
 * tests/walls.py lists the walls and the test of each.
 */
#ifdef CAY_TEST_WALLS
bool wall_stands(const char *name);
#else
static inline bool wall_stands(const char *name)
{
	(void)name;
	return true;
}
#endif
