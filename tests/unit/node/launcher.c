/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/launch.h"

/* `cay launch` without the rest of cay, for the tests of the runtime. */
int main(int argc, char **argv)
{
	return launcher_main(argc, argv);
}
