/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <assert.h>

/*
 * RFC 3339 by arithmetic alone: libc's calendar functions depend on time zones, locales and
 * environment variables, none of which matter here.
 */
enum {
	SECOND = 1000000,
	DAY_S = 86400,
};

static usec read_clock(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* cannot fail for these clocks */
	return (usec)ts.tv_sec * SECOND + ts.tv_nsec / 1000;
}

usec clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

usec clock_mono(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

struct civil {
	int64_t year;
	unsigned month, day; /* counted from 1 */
};

/*
 * Years begin in March here, so that the leap day is the last day of its year and months need no
 * table.
 */
static int64_t days_from_civil(struct civil c)
{
	int64_t y = c.month <= 2 ? c.year - 1 : c.year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t month = c.month > 2 ? c.month - 3 : c.month + 9;
	int64_t day_of_year = (153 * month + 2) / 5 + c.day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
	       day_of_year - 719468;
}

static struct civil civil_from_days(int64_t days)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t day_of_era = z - era * 146097;
	int64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t month = (5 * day_of_year + 2) / 153;

	return (struct civil){
		.year = year_of_era + era * 400 + (month >= 10),
		.month = (unsigned)(month < 10 ? month + 3 : month - 9),
		.day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1),
	};
}

/* Writes n as this many digits, and returns what follows them. */
static char *put_digits(char *at, int64_t n, unsigned digits)
{
	for (unsigned i = digits; i--; n /= 10)
		at[i] = (char)('0' + n % 10);
	return at + digits;
}

/* Formats the time down to the seconds, and returns what follows; *ret_micros is the remaining
 * fraction. Done by hand, because every write has a few of these. */
static char *format_seconds(usec wall, char ret[CLOCK_TEXT_MAX], int64_t *ret_micros)
{
	int64_t micros = wall % SECOND, s = wall / SECOND, in_day, days;
	struct civil c;
	char *at = ret;

	if (micros < 0) {
		micros += SECOND;
		s--;
	}
	in_day = s % DAY_S;
	days = s / DAY_S;
	if (in_day < 0) {
		in_day += DAY_S;
		days--;
	}
	c = civil_from_days(days);
	*ret_micros = micros;
	if (c.year < 0 || c.year > 9999)
		return ret + snprintf(ret, CLOCK_TEXT_MAX, "%04lld-%02u-%02uT%02d:%02d:%02d",
				      (long long)c.year, c.month, c.day, (int)(in_day / 3600),
				      (int)(in_day / 60 % 60), (int)(in_day % 60));
	at = put_digits(at, c.year, 4);
	*at++ = '-';
	at = put_digits(at, c.month, 2);
	*at++ = '-';
	at = put_digits(at, c.day, 2);
	*at++ = 'T';
	at = put_digits(at, in_day / 3600, 2);
	*at++ = ':';
	at = put_digits(at, in_day / 60 % 60, 2);
	*at++ = ':';
	return put_digits(at, in_day % 60, 2);
}

/* digits: of the fraction, 0, 6 or 9. */
static void format_with(usec wall, char ret[CLOCK_TEXT_MAX], unsigned digits)
{
	int64_t micros;
	char *at = format_seconds(wall, ret, &micros);

	assert(at - ret + 12 <= CLOCK_TEXT_MAX);
	if (digits) {
		*at++ = '.';
		at = put_digits(at, digits > 6 ? micros * 1000 : micros, digits);
	}
	*at++ = 'Z';
	*at = '\0';
}

void clock_format(usec wall, char ret[CLOCK_TEXT_MAX])
{
	format_with(wall, ret, 0);
}

void clock_format_micro(usec wall, char ret[CLOCK_TEXT_MAX])
{
	format_with(wall, ret, 6);
}

void clock_format_nano(usec wall, char ret[CLOCK_TEXT_MAX])
{
	format_with(wall, ret, 9);
}

/* Reads exactly n digits from *at and moves it past them. */
static bool take_digits(const char **at, unsigned n, unsigned *ret)
{
	unsigned v = 0;

	for (unsigned i = 0; i < n; i++) {
		char c = (*at)[i];

		if (c < '0' || c > '9')
			return false;
		v = v * 10 + (unsigned)(c - '0');
	}
	*at += n;
	*ret = v;
	return true;
}

static bool take_char(const char **at, char want, char other)
{
	if (**at != want && **at != other)
		return false;
	(*at)++;
	return true;
}

static bool take_date(const char **at, int64_t *ret_days)
{
	static const unsigned char month_days[] = {
		31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31
	};
	unsigned y, m, d, last;

	if (!take_digits(at, 4, &y) || !take_char(at, '-', '-') || !take_digits(at, 2, &m) ||
	    !take_char(at, '-', '-') || !take_digits(at, 2, &d) || m < 1 || m > 12)
		return false;
	last = month_days[m - 1];
	if (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0))
		last = 29;
	if (d < 1 || d > last)
		return false;
	*ret_days = days_from_civil((struct civil){ y, m, d });
	return true;
}

static bool take_time(const char **at, int64_t *ret_micros)
{
	unsigned h, m, s, scale = SECOND / 10;
	int64_t micros = 0;

	if (!take_digits(at, 2, &h) || !take_char(at, ':', ':') || !take_digits(at, 2, &m) ||
	    !take_char(at, ':', ':') || !take_digits(at, 2, &s) || h > 23 || m > 59 || s > 59)
		return false;
	if (**at == '.') {
		(*at)++;
		if (**at < '0' || **at > '9')
			return false;
		for (; **at >= '0' && **at <= '9'; (*at)++, scale /= 10)
			micros += (int64_t)(**at - '0') * scale;
	}
	*ret_micros = (int64_t)(h * 3600 + m * 60 + s) * SECOND + micros;
	return true;
}

static bool take_offset(const char **at, int64_t *ret_seconds)
{
	unsigned h, m;
	bool west = **at == '-';

	*ret_seconds = 0;
	if (take_char(at, 'Z', 'z'))
		return true;
	if (!take_char(at, '+', '-') || !take_digits(at, 2, &h) || !take_char(at, ':', ':') ||
	    !take_digits(at, 2, &m) || h > 23 || m > 59)
		return false;
	*ret_seconds = (int64_t)(h * 3600 + m * 60) * (west ? -1 : 1);
	return true;
}

struct err *clock_parse(const char *text, usec *ret)
{
	int64_t days, micros, offset;
	const char *at = text;

	if (!take_date(&at, &days) || !take_char(&at, 'T', 't') || !take_time(&at, &micros) ||
	    !take_offset(&at, &offset) || *at)
		return err_new(ERR_MALFORMED, "\"%.40s\" is not an RFC 3339 time", text);
	*ret = (days * DAY_S - offset) * SECOND + micros;
	return NULL;
}
