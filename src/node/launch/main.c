/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/launch.h"

/*
 * cay-launch. It is not a part of cay, because every slot begins as a copy of it: cay has sixty
 * libraries, each with its own pages, and copying and dropping their maps would cost each sandbox
 * more than two milliseconds of a processor.
 */
int main(void)
{
	return launcher_main();
}
