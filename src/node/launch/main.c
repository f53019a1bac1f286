/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/launch/launch.h"

/*
 * cay-launch. It is not a part of cay, because every slot begins as a copy of it: cay has sixty
 * libraries, each with its own pages, and copying and dropping their maps would cost each sandbox
 * more than two milliseconds of a processor.
 */
int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && str_eq(argv[1], "--probe"))
		return probe_main(argv[2], argv[3], argv[4]);
	return launcher_main();
}
