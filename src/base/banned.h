/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Included before everything else (-include base/banned.h), this turns calls to functions that have
 * no place here into compile errors. The system headers that declare them must come first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* For clang, a fortified C library has macros of these names. */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok atoi atol atoll
#pragma GCC poison gmtime localtime asctime ctime popen usleep gets mktemp tmpnam
