/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct diskpool;
struct loop;
struct node_object;

/*
 * Looks after the disk from time to time: gives back what the pool no longer uses, and tells by the
 * Node's condition DiskPressure when the pool or the file system of the store is nearly full.
 */
struct pressure;

struct pressure *pressure_new(struct loop *l, const struct diskpool *d, struct node_object *o);
void pressure_free(struct pressure *p); /* turns the loop until nothing is under way */
