{{ begin }}{{ comment }} Times and inputs from a CSV file, outputs as CSV to standard output.

       cc -std=c99 -O2 -o {{ name }} {{ name }}.c {{ name }}_main.c -lm
       ./{{ name }} input.csv > output.csv

   A line has the time{{ " in " ~ t_unit | c_comment if t_unit }} and the inputs{% for one in inputs %}{{ ", " if not loop.first else " " }}{{ one | c_comment }}{% endfor %}; the first one may be their names. The
   input is {{ "linear" if linear_input else "held" }} between the lines.{% if doses %} Rates of doses are held. Behind the inputs are the
   amounts that are given at once at the time of a line, after its outputs{% for one in doses %}{{ "," if not loop.first else ":" }} {{ one.name | c_comment }}{% endfor %}.{% endif %} */
#include "{{ name }}.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 65536
#define COLUMNS (1 + {{ NAME }}_INPUTS + {{ NAME }}_DOSES)

/* Read the numbers of a line; returns 0 where it does not have so many. */
static int numbers(const char *line, double *row)
{
    int column;
    for (column = 0; column < COLUMNS; column++) {
        char *end;
        row[column] = strtod(line, &end);
        if (end == line)
            return 0;
        line = end + strspn(end, " \t");
        if (column + 1 < COLUMNS && *line++ != ',')
            return 0;
    }
    return line[strspn(line, " \t\r\n")] == '\0';
}

/* Steps of an interval, none longer than those with which the model was identified. */
static int steps_in(double interval)
{
    const double wanted = ceil(interval * {{ NAME }}_STEPS / {{ NAME }}_INTERVAL - 1e-6);
    return wanted > {{ NAME }}_STEPS ? (int) fmin(wanted, 1e9) : {{ NAME }}_STEPS;
}

static void print(double t, const double *y)
{
    int k;
    printf("%.17g", t);
    for (k = 0; k < {{ NAME }}_OUTPUTS; k++)
        printf(",%.17g", y[k]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static char line[LONGEST];
    double before[COLUMNS] = {0}, row[COLUMNS], x[{{ NAME }}_STATES], y[{{ NAME }}_OUTPUTS];
    const double *p = {{ name }}_parameters;
{% if dead_times %}
    static {{ name }}_past past;
    double u[{{ NAME }}_INPUTS];
{% endif %}
{% if events %}
    double sides[{{ NAME }}_EVENTS] = {0};
{% endif %}
    long number = 0, samples = 0;
{% if doses %}
    int k;
{% endif %}
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, argc == 2 ? "%s: %s\n" : "usage: %s input.csv%s\n", argv[argc - 1],
            argc == 2 ? strerror(errno) : "");
        return 2;
    }
    puts({{ header | c_text }});
    {{ name }}_initial(p, x);
    while (fgets(line, LONGEST, file) != NULL) {
        number++;
        if (!numbers(line, row)) {
            if (number == 1)
                continue;
            fprintf(stderr, "%s: line %ld does not have %d numbers\n", argv[1], number, COLUMNS);
            return 2;
        }
{% if doses %}
        for (k = 1 + {{ NAME }}_INPUTS; k < COLUMNS; k++) {
            if (!(fabs(row[k]) <= DBL_MAX)) {
                fprintf(stderr, "%s: line %ld has an amount that is not finite\n", argv[1], number);
                return 2;
            }
{% if dead_times %}
            row[k] += before[k];
{% endif %}
        }
{% endif %}
{% if dead_times %}
        if (!{{ name }}_remember(&past, row[0], row + 1, {{ NAME }}_LINEAR_INPUT, p)) {
            fprintf(stderr, "%s: line %ld is one of more than %d within a dead time\n", argv[1],
                number, {{ NAME }}_PAST);
            return 2;
        }
{% endif %}
        if (samples > 0) {
            const double interval = row[0] - before[0];
            if (!(interval > 0.0 && interval <= DBL_MAX)) {
                fprintf(stderr, "%s: line %ld is not later than the one before\n", argv[1], number);
                return 2;
            }
{% if dead_times %}
            {{ name }}_advance_past(&past, before[0], interval, steps_in(interval),
                {{ NAME }}_LINEAR_INPUT, p, x{{ ", sides" if events }});
        }
        {{ name }}_delayed(&past, row[0], {{ NAME }}_LINEAR_INPUT, p, u);
        {{ name }}_outputs(row[0], x, u, p, y);
{% else %}
            {{ name }}_advance(before[0], interval, steps_in(interval), before + 1,
                {{ NAME }}_LINEAR_INPUT ? row + 1 : NULL, p, x{{ ", sides" if events }});
        }
        {{ name }}_outputs(row[0], x, row + 1, p, y);
{% endif %}
        print(row[0], y);
{% if accumulators %}
        {{ name }}_reset_accumulators(x);
{% endif %}
{% if doses and not dead_times %}
        for (k = 0; k < {{ NAME }}_DOSES; k++)
            {{ name }}_give(k, row[1 + {{ NAME }}_INPUTS + k], p, x);
{% endif %}
        memcpy(before, row, sizeof row);
        samples++;
    }
    return 0;
}
