{{ begin }}{{ comment }} */
#include "{{ name }}.h"

#include <stddef.h>
{% if events %}
#include <math.h>
{% endif %}
{% if dead_times or events %}
#include <string.h>
{% endif %}

#if defined(__GNUC__)
/* The functions below share one signature, of which not all use all. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

{{ generated }}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

{% macro table(kind, names) -%}
const char *const {{ name }}_{{ kind }}_names[] = {
{% for one in names %}
    {{ one | c_text }},
{% else %}
    ""
{% endfor %}
};
{%- endmacro %}
{{ table("state", states) }}

{{ table("input", inputs) }}

{{ table("output", outputs) }}

{{ table("parameter", parameters) }}
{% if doses %}

{{ table("dose", doses | map(attribute="name")) }}
{% endif %}

const double {{ name }}_parameters[] = {
{% for one in values %}
    {{ one }}, /* {{ parameters[loop.index0] | c_comment }} */
{% else %}
    0.0
{% endfor %}
};

{% macro call(of) -%}
    casadi_int iw[{{ work[of].iw }}];
    casadi_real w[{{ work[of].w }}];
{%- endmacro %}
void {{ name }}_initial(const double *p, double *x)
{
    const double *arg[{{ work.initial.arg }}] = {0};
    double *res[{{ work.initial.res }}] = {0};
    {{ call("initial") | trim }}
    arg[0] = p;
    res[0] = x;
    (void) {{ name }}_casadi_initial(arg, res, iw, w, 0);
}

void {{ name }}_rhs(double t, const double *x, const double *u, const double *p, double *dx)
{
    const double *arg[{{ work.rhs.arg }}] = {0};
    double *res[{{ work.rhs.res }}] = {0};
    {{ call("rhs") | trim }}
    arg[0] = x;
    arg[1] = u;
    arg[2] = &t;
    arg[3] = p;
    res[0] = dx;
    (void) {{ name }}_casadi_rhs(arg, res, iw, w, 0);
}

void {{ name }}_outputs(double t, const double *x, const double *u, const double *p, double *y)
{
    const double *arg[{{ work.outputs.arg }}] = {0};
    double *res[{{ work.outputs.res }}] = {0};
    {{ call("outputs") | trim }}
    arg[0] = x;
    arg[1] = u;
    arg[2] = &t;
    arg[3] = p;
    res[0] = y;
    (void) {{ name }}_casadi_outputs(arg, res, iw, w, 0);
}

void {{ name }}_jacobian(double t, const double *x, const double *u, const double *p,
    double *A, double *B, double *C, double *D)
{
    const double *arg[{{ work.jacobian.arg }}] = {0};
    double *res[{{ work.jacobian.res }}] = {0};
    {{ call("jacobian") | trim }}
    arg[0] = x;
    arg[1] = u;
    arg[2] = &t;
    arg[3] = p;
    res[0] = A;
    res[1] = B;
    res[2] = C;
    res[3] = D;
    (void) {{ name }}_casadi_jacobian(arg, res, iw, w, 0);
}

{% if doses %}
int {{ name }}_give(int dose, double amount, const double *p, double *x)
{
    static const int states[] = { {{ doses | map(attribute="state") | join(", ") }} };
    const double fractions[] = { {{ doses | map(attribute="fraction") | join(", ") }} };
    (void) p;
    if (dose < 0 || dose >= {{ NAME }}_DOSES || !(amount - amount == 0.0))
        return 0;
    x[states[dose]] += fractions[dose] * amount;
    return 1;
}

{% endif %}
{% if accumulators %}
void {{ name }}_reset_accumulators(double *x)
{
{% for place in accumulators %}
    x[{{ place }}] = 0.0;
{% endfor %}
}

{% endif %}
/* The input at a fraction of the interval. */
static const double *input_at(double fraction, const double *u, const double *u_end, double *between)
{
    int k;
    if (u_end == NULL)
        return u;
    for (k = 0; k < {{ NAME }}_INPUTS - {{ NAME }}_DOSES; k++)
        between[k] = u[k] * (1.0 - fraction) + u_end[k] * fraction;
    for (; k < {{ NAME }}_INPUTS; k++)
        between[k] = u[k];
    return between;
}

/* A step of an interval: its time and length, the parts of the interval where it begins and which it
   is, and the inputs at the ends of the interval. */
typedef struct {
    double t, h, begin, part;
    const double *u, *u_end, *p;
} Step;

static const double *step_input(const Step *step, double part, double *between)
{
    return input_at(step->begin + part * step->part, step->u, step->u_end, between);
}

/* Move the state by the Runge-Kutta method of fourth order from one part of a step to another. */
static void move(const Step *step, double from, double to, double *x)
{
    double k1[{{ n }}], k2[{{ n }}], k3[{{ n }}], k4[{{ n }}], moved[{{ n }}], between[{{ m }}];
    const double begin = step->t + from * step->h, h = (to - from) * step->h;
    const double *now = step_input(step, from, between);
    int k;
    {{ name }}_rhs(begin, x, now, step->p, k1);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        moved[k] = x[k] + h / 2 * k1[k];
    now = step_input(step, 0.5 * (from + to), between);
    {{ name }}_rhs(begin + h / 2, moved, now, step->p, k2);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        moved[k] = x[k] + h / 2 * k2[k];
    {{ name }}_rhs(begin + h / 2, moved, now, step->p, k3);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        moved[k] = x[k] + h * k3[k];
    now = step_input(step, to, between);
    {{ name }}_rhs(begin + h, moved, now, step->p, k4);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        x[k] += h / 6 * (k1[k] + 2 * k2[k] + 2 * k3[k] + k4[k]);
}
{% if events %}

/* Of every event what crosses zero, the sign of its direction, and the states behind it. */
typedef double Events[{{ NAME }}_EVENTS][2 + {{ NAME }}_STATES];

static void events_at(double t, const double *x, const double *u, const double *p, Events found)
{
    const double *arg[{{ work.events.arg }}] = {0};
    double *res[{{ work.events.res }}] = {0};
    {{ call("events") | trim }}
    arg[0] = x;
    arg[1] = u;
    arg[2] = &t;
    arg[3] = p;
    res[0] = found[0];
    (void) {{ name }}_casadi_events(arg, res, iw, w, 0);
}

void {{ name }}_indicators(double t, const double *x, const double *u, const double *p, double *g)
{
    Events found;
    int k;
    events_at(t, x, u, p, found);
    for (k = 0; k < {{ NAME }}_EVENTS; k++)
        g[k] = found[k][0];
}

static int crosses(const double *event, double side)
{
    return (side < 0.0 && event[0] >= 0.0 && event[1] >= 0.0)
        || (side > 0.0 && event[0] <= 0.0 && event[1] <= 0.0);
}

static double sign_of(double value) { return (value > 0.0) - (value < 0.0); }

int {{ name }}_jump(double t, const double *u, const double *p, double *x, double *sides)
{
    const double ahead = 1e-6 * {{ NAME }}_INTERVAL / {{ NAME }}_STEPS;
    double dx[{{ n }}], moved[{{ n }}], bent[{{ n }}];
    int due[{{ NAME }}_EVENTS], past[{{ NAME }}_EVENTS] = {0}, some = 0, again = 1, endless = 0, k;
    Events found, later;
    while (again) {
        again = 0;
        events_at(t, x, u, p, found);
        for (k = 0; k < {{ NAME }}_EVENTS; k++)
            due[k] = !past[k] && fabs(sides[k]) == 1.0 && crosses(found[k], sides[k]);
        for (k = 0; k < {{ NAME }}_EVENTS; k++) {
            if (!due[k])
                continue;
            events_at(t, x, u, p, found);
            memcpy(x, found[k] + 2, {{ NAME }}_STATES * sizeof *x);
            past[k] = some = again = 1;
        }
    }
    for (k = 0; k < {{ NAME }}_EVENTS; k++)
        if (found[k][0] != 0.0 && !past[k])
            sides[k] = sign_of(found[k][0]);
    if (!some)
        return 0;
    /* What its own event leaves at zero goes to a side, on which it is not yet. */
    {{ name }}_rhs(t, x, u, p, dx);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        moved[k] = x[k] + ahead * dx[k];
    events_at(t + ahead, moved, u, p, found);
    {{ name }}_rhs(t + ahead, moved, u, p, bent);
    for (k = 0; k < {{ NAME }}_STATES; k++)
        bent[k] = x[k] + ahead / 2 * (dx[k] + bent[k]);
    events_at(t + ahead, bent, u, p, later);
    for (k = 0; k < {{ NAME }}_EVENTS; k++) {
        if (!past[k])
            continue;
        /* One that is back as soon as it has left happens infinitely often. */
        endless |= sides[k] * found[k][0] > 0.0 && sides[k] * later[k][0] <= 0.0;
        sides[k] = 0.5 * sign_of(found[k][0]);
    }
    for (k = 0; endless && k < {{ NAME }}_STATES; k++)
        x[k] = NAN;
    return 1;
}

void {{ name }}_go_on(double *sides)
{
    int k;
    for (k = 0; k < {{ NAME }}_EVENTS; k++)
        sides[k] = sign_of(sides[k]);
}

/* Whether an event has happened until a part of a step, where the state is x. */
static int crossed(const Step *step, double part, const double *x, const double *sides)
{
    double between[{{ m }}];
    Events found;
    int k, some = 0;
    events_at(step->t + part * step->h, x, step_input(step, part, between), step->p, found);
    for (k = 0; k < {{ NAME }}_EVENTS; k++)
        some |= crosses(found[k], sides[k]);
    return some;
}

static void jump_at(const Step *step, double part, double *x, double *sides)
{
    double between[{{ m }}];
    const double *u = step_input(step, part, between);
    (void) {{ name }}_jump(step->t + part * step->h, u, step->p, x, sides);
}

/* Take a step, and let the state jump at every event in it. */
static void move_through(const Step *step, double *x, double *sides)
{
    double begin[{{ n }}], done = 0.0;
    int count, k;
    jump_at(step, 0.0, x, sides);
    for (count = 0; done < 1.0 && count <= {{ most_events }}; count++) {
        double before = done, behind = 1.0;
        memcpy(begin, x, sizeof begin);
        move(step, done, 1.0, x);
        {{ name }}_go_on(sides);
        if (!crossed(step, 1.0, x, sides)) {
            jump_at(step, 1.0, x, sides);
            return;
        }
        for (k = 0; k < 52; k++) {
            const double part = 0.5 * (before + behind);
            memcpy(x, begin, sizeof begin);
            move(step, done, part, x);
            *(crossed(step, part, x, sides) ? &behind : &before) = part;
        }
        memcpy(x, begin, sizeof begin);
        move(step, done, behind, x);
        jump_at(step, behind, x, sides);
        done = behind;
    }
    for (k = 0; count > {{ most_events }} && k < {{ NAME }}_STATES; k++)
        x[k] = NAN;
}
{% endif %}

void {{ name }}_advance(double t, double interval, int steps, const double *u, const double *u_end,
    const double *p, double *x{{ ", double *sides" if events }})
{
    int k;
    for (k = 0; k < steps; k++) {
        const Step step = {
            t + interval * k / steps, interval / steps, (double) k / steps, 1.0 / steps, u, u_end, p
        };
        {{ "move_through(&step, x, sides)" if events else "move(&step, 0.0, 1.0, x)" }};
    }
}
{% if dead_times %}

static double dead_time(int input, const double *p)
{
    const double each[] = { {{ dead_times | join(", ") }} };
    (void) p;
    return each[input];
}

int {{ name }}_remember({{ name }}_past *past, double t, const double *u, int linear,
    const double *p)
{
    double longest = 0.0;
    int k, old = 0;
    if (past->count > 0 && t <= past->t[past->count - 1])
        past->count--;
    if (!linear && past->count > 0 && memcmp(past->u[past->count - 1], u, sizeof *past->u) == 0)
        return 1;
    for (k = 0; k < {{ NAME }}_INPUTS + {{ NAME }}_DOSES; k++)
        longest = dead_time(k, p) > longest ? dead_time(k, p) : longest;
    if (past->count == {{ NAME }}_PAST) {
        /* One has been the last to arrive until the one after it does. */
        while (old + 1 < past->count && past->t[old + 1] + longest <= past->t[past->count - 1])
            old++;
        if (old == 0)
            return 0;
        past->count -= old;
        memmove(past->t, past->t + old, past->count * sizeof *past->t);
        memmove(past->u, past->u + old, past->count * sizeof *past->u);
    }
    past->t[past->count] = t;
    memcpy(past->u[past->count++], u, sizeof *past->u);
    return 1;
}

/* An input at t by the last sample that has arrived at another time, and the one after it. */
static double arrived(const {{ name }}_past *past, int input, double at, double t, int linear,
    const double *p)
{
    const double late = dead_time(input, p);
    int k = past->count - 1;
    while (k > 0 && past->t[k] + late > at)
        k--;
{% if doses %}
    if (input >= {{ NAME }}_INPUTS - {{ NAME }}_DOSES)
        return past->t[k] + late > at ? 0.0 : past->u[k][input];
{% endif %}
    if (!linear || k + 1 == past->count || past->t[k] + late > at)
        return past->u[k][input];
    return past->u[k][input] + (past->u[k + 1][input] - past->u[k][input])
        * (t - late - past->t[k]) / (past->t[k + 1] - past->t[k]);
}

void {{ name }}_delayed(const {{ name }}_past *past, double t, int linear, const double *p, double *u)
{
    int k;
    for (k = 0; k < {{ NAME }}_INPUTS; k++)
        u[k] = arrived(past, k, t + 1e-9 * {{ NAME }}_INTERVAL, t, linear, p);
}

{% if doses %}
/* 0 where nothing new is remembered of a dose. */
static int changes(const {{ name }}_past *past, int k, int input)
{
    return input < {{ NAME }}_INPUTS - {{ NAME }}_DOSES
        || past->u[k][input] != (k > 0 ? past->u[k - 1][input] : 0.0);
}

{% endif %}
void {{ name }}_advance_past({{ "" if doses else "const " }}{{ name }}_past *past, double t, double interval, int steps,
    int linear, const double *p, double *x{{ ", double *sides" if events }})
{
    const double end = t + interval, least = 1e-9 * interval;
    double begin_u[{{ m }}], end_u[{{ m }}];
    while (t < end) {
        double next = end;
        int k, input;
        for (input = 0; input < {{ NAME }}_INPUTS + {{ NAME }}_DOSES; input++) {
            const double late = dead_time(input, p);
            for (k = past->count - 1; k >= 0 && past->t[k] + late > t + least; k--)
                if (past->t[k] + late < next - least{{ " && changes(past, k, input)" if doses }})
                    next = past->t[k] + late;
        }
        for (input = 0; input < {{ NAME }}_INPUTS; input++) {
            begin_u[input] = arrived(past, input, 0.5 * (t + next), t, linear, p);
            end_u[input] = arrived(past, input, 0.5 * (t + next), next, linear, p);
        }
{% if doses %}
        for (k = 0; k < {{ NAME }}_DOSES; k++) {
            const double given = arrived(past, {{ NAME }}_INPUTS + k, 0.5 * (t + next), t, linear, p);
            (void) {{ name }}_give(k, given - past->entered[k], p, x);
            past->entered[k] = given;
        }
{% endif %}
        {{ name }}_advance(t, next - t, steps, begin_u, linear ? end_u : NULL, p, x{{ ", sides" if events }});
        t = next;
    }
}
{% endif %}
