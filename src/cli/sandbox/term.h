/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct buf;

/* What is only for people who look at a terminal: colours, progress, columns. */

enum term_style {
	TERM_PLAIN,
	TERM_GOOD,
	TERM_WARN,
	TERM_BAD,
	TERM_DIM,
	TERM_BOLD,
	TERM_STYLE_MAX_,
};

/* A terminal that shows colours, and nobody asked for none (NO_COLOR, TERM=dumb). */
bool term_has_colour(int fd);

/* Rows and columns of text, each column as wide as its longest cell. */
struct grid;
/* heads ends with NULL. */
struct grid *grid_new(const char *const *heads);
void grid_free(struct grid *t);
AUTOPTR(grid)
/* The next cell, from left to right, row by row. Control characters become '?'. */
void grid_cell(struct grid *t, enum term_style style, const char *text);
void grid_write(const struct grid *t, bool heads, bool colour, struct buf *out);

/* "3d", "4h12m", "38s" */
#define TERM_AGE_MAX 32
void term_age(usec since, char ret[TERM_AGE_MAX]);
/* "12.3 MiB" */
#define TERM_SIZE_MAX 32
void term_size(double bytes, char ret[TERM_SIZE_MAX]);

/* One line on a terminal's standard error that is written again and again; elsewhere nothing. */
struct term_progress {
	bool shown, on;
	usec begin, last;
};
void term_progress_start(struct term_progress *p);
void term_progress_bytes(struct term_progress *p, const char *what, unsigned long long bytes);
void term_progress_note(struct term_progress *p, const char *what); /* after a second of waiting */
void term_progress_end(struct term_progress *p);                    /* removes the line */

/*
 * Raw mode of the terminal at standard input, until term_cooked(), also when this process is ended
 * by a signal that it can notice or by an assertion. False: it is not a terminal.
 */
bool term_raw(void);
void term_cooked(void);
