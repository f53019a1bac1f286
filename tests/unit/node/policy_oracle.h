/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct policy_packet;
struct policy_world;

/*
 * What the text of the NetworkPolicy API says about one packet, read off the objects one after the
 * other, with nothing compiled, merged or shared. It says nothing of a sender that is not a Pod.
 *
 * Beyond the text: a Pod that no policy selects reaches addresses outside but no sandbox, and is
 * reached by none; blocks are addresses outside; the name server is a Pod with both its addresses.
 */
bool oracle_allows(const struct policy_world *w, const struct policy_packet *packet);
