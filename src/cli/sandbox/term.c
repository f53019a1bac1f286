/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox/term.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
	REDRAW_US = 100 * 1000,
	NOTE_AFTER_US = 1000 * 1000,
	MINUTE = 60,
	HOUR = 60 * MINUTE,
	DAY = 24 * HOUR,
};

static const char *const codes[TERM_STYLE_MAX_] = {
	[TERM_GOOD] = "\033[32m", [TERM_WARN] = "\033[33m", [TERM_BAD] = "\033[31m",
	[TERM_DIM] = "\033[2m",   [TERM_BOLD] = "\033[1m",
};

bool term_has_colour(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && str_empty(getenv("NO_COLOR")) && term && !str_eq(term, "dumb");
}

/* Tables */

struct cell {
	char *text;
	enum term_style style;
};

struct grid {
	const char *const *heads;
	size_t n_columns, n_cells, cap;
	struct cell *cells;
};

struct grid *grid_new(const char *const *heads)
{
	struct grid *t = xnew(struct grid);

	t->heads = heads;
	while (heads[t->n_columns])
		t->n_columns++;
	return t;
}

void grid_free(struct grid *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(t);
}

void grid_cell(struct grid *t, enum term_style style, const char *text)
{
	char *copy = xstrdup(str_or(text, "-"));

	cli_disarm(copy, '\0'); /* it may be what somebody else wrote */
	if (t->n_cells == t->cap) {
		t->cap = MAX(t->cap * 2, (size_t)64);
		t->cells = xrealloc(t->cells, t->cap * sizeof(*t->cells));
	}
	t->cells[t->n_cells++] = (struct cell){ copy, style };
}

/* Characters, not bytes: continuation bytes take no room. */
static int width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void put_cell(const struct cell *c, int pad, bool colour, struct buf *out)
{
	const char *code = colour ? codes[c->style] : NULL;

	buf_printf(out, "%s%s%s", code ? code : "", c->text, code ? "\033[0m" : "");
	if (pad >= 0)
		buf_printf(out, "%*s", pad + 2, "");
	else
		buf_add_char(out, '\n');
}

void grid_write(const struct grid *t, bool heads, bool colour, struct buf *out)
{
	autofree int *wide = xnew_n(int, t->n_columns + 1);
	size_t last = t->n_columns - 1;

	assert(t->n_columns);
	for (size_t i = 0; heads && i < t->n_columns; i++)
		wide[i] = width(t->heads[i]);
	for (size_t i = 0; i < t->n_cells; i++)
		wide[i % t->n_columns] = MAX(wide[i % t->n_columns], width(t->cells[i].text));
	for (size_t i = 0; heads && i < t->n_columns; i++)
		put_cell(&(struct cell){ (char *)t->heads[i], TERM_DIM },
			 i == last ? -1 : wide[i] - width(t->heads[i]), colour, out);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t column = i % t->n_columns;

		put_cell(&t->cells[i], column == last ? -1 : wide[column] - width(t->cells[i].text),
			 colour, out);
	}
}

/* Figures */

void term_age(usec since, char ret[TERM_AGE_MAX])
{
	long long s = MAX(since, (usec)0) / 1000000;

	if (s < 2 * MINUTE)
		(void)snprintf(ret, TERM_AGE_MAX, "%llds", s);
	else if (s < 10 * MINUTE)
		(void)snprintf(ret, TERM_AGE_MAX, "%lldm%llds", s / MINUTE, s % MINUTE);
	else if (s < 3 * HOUR)
		(void)snprintf(ret, TERM_AGE_MAX, "%lldm", s / MINUTE);
	else if (s < 2 * DAY)
		(void)snprintf(ret, TERM_AGE_MAX, "%lldh%lldm", s / HOUR, s % HOUR / MINUTE);
	else
		(void)snprintf(ret, TERM_AGE_MAX, "%lldd", s / DAY);
}

void term_size(double bytes, char ret[TERM_SIZE_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	for (; bytes >= 1024 && i + 1 < ARRAY_LEN(units); i++)
		bytes /= 1024;
	(void)snprintf(ret, TERM_SIZE_MAX, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
}

/* Progress */

void term_progress_start(struct term_progress *p)
{
	*p = (struct term_progress){ .on = isatty(STDERR_FILENO), .begin = clock_mono() };
}

static bool due(struct term_progress *p)
{
	usec now = clock_mono();

	if (!p->on || now - p->last < REDRAW_US)
		return false;
	p->last = now;
	p->shown = true;
	return true;
}

void term_progress_bytes(struct term_progress *p, const char *what, unsigned long long bytes)
{
	char done[TERM_SIZE_MAX], rate[TERM_SIZE_MAX];
	usec took = MAX(clock_mono() - p->begin, (usec)1);

	if (!due(p))
		return;
	term_size((double)bytes, done);
	term_size((double)bytes * 1e6 / (double)took, rate);
	(void)fprintf(stderr, "\r\033[K%s  %s  %s/s", what, done, rate);
}

void term_progress_note(struct term_progress *p, const char *what)
{
	if (clock_mono() - p->begin < NOTE_AFTER_US || !due(p))
		return;
	(void)fprintf(stderr, "\r\033[K%s (%lld s)", what,
		      (long long)(clock_mono() - p->begin) / 1000000);
}

void term_progress_end(struct term_progress *p)
{
	if (p->shown)
		(void)fprintf(stderr, "\r\033[K");
	p->shown = false;
}

/* Raw mode */

static struct termios cooked;
static volatile sig_atomic_t is_raw;

void term_cooked(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
	is_raw = 0;
}

static void on_crash(int signum)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
	(void)raise(signum); /* as it was before: SA_RESETHAND */
}

bool term_raw(void)
{
	static const int crashes[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct sigaction a = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };
	struct termios raw;

	if (is_raw || tcgetattr(STDIN_FILENO, &cooked) < 0)
		return is_raw;
	for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
		(void)sigaction(crashes[i], &a, NULL);
	raw = cooked;
	cfmakeraw(&raw);
	is_raw = 1;
	(void)atexit(term_cooked);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	return true;
}
