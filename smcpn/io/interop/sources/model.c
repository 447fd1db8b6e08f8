{{ begin }}{{ comment }} */
#include "{{ name }}.h"

#include <stddef.h>

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

/* The input at a fraction of the interval. */
static const double *input_at(double fraction, const double *u, const double *u_end, double *between)
{
    int k;
    if (u_end == NULL)
        return u;
    for (k = 0; k < {{ NAME }}_INPUTS; k++)
        between[k] = u[k] * (1.0 - fraction) + u_end[k] * fraction;
    return between;
}

void {{ name }}_advance(double t, double interval, int steps, const double *u, const double *u_end,
    const double *p, double *x)
{
    double k1[{{ n }}], k2[{{ n }}], k3[{{ n }}], k4[{{ n }}], moved[{{ n }}], between[{{ m }}];
    const double h = interval / steps;
    int step, k;
    for (step = 0; step < steps; step++) {
        const double begin = t + interval * step / steps;
        const double *now = input_at((double) (2 * step) / (2 * steps), u, u_end, between);
        {{ name }}_rhs(begin, x, now, p, k1);
        for (k = 0; k < {{ NAME }}_STATES; k++)
            moved[k] = x[k] + h / 2 * k1[k];
        now = input_at((double) (2 * step + 1) / (2 * steps), u, u_end, between);
        {{ name }}_rhs(begin + h / 2, moved, now, p, k2);
        for (k = 0; k < {{ NAME }}_STATES; k++)
            moved[k] = x[k] + h / 2 * k2[k];
        {{ name }}_rhs(begin + h / 2, moved, now, p, k3);
        for (k = 0; k < {{ NAME }}_STATES; k++)
            moved[k] = x[k] + h * k3[k];
        now = input_at((double) (2 * step + 2) / (2 * steps), u, u_end, between);
        {{ name }}_rhs(begin + h, moved, now, p, k4);
        for (k = 0; k < {{ NAME }}_STATES; k++)
            x[k] += h / 6 * (k1[k] + 2 * k2[k] + 2 * k3[k] + k4[k]);
    }
}
