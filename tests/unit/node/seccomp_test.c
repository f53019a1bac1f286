/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "node/launch/launch_priv.h"
#include "test.h"

TEST(the_system_call_filter_compiles_to_a_tree_that_fits)
{
	struct sock_fprog filter = { 0 };

	works(seccomp_compile(&filter));
	is_true(filter.len > 100 && filter.len < 4096);
	free(filter.filter);
}
