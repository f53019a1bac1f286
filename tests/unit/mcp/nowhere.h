/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct client;
struct kinds;

/* A client of a cluster without objects, in which nothing can be created. */
struct client *nowhere_client(struct kinds *kinds);
