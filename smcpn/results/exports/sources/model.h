{{ begin }}{{ comment }} */
#ifndef {{ NAME }}_H
#define {{ NAME }}_H

#ifdef __cplusplus
extern "C" {
#endif

#define {{ NAME }}_STATES {{ states | length }}
#define {{ NAME }}_INPUTS {{ inputs | length }}
#define {{ NAME }}_OUTPUTS {{ outputs | length }}
#define {{ NAME }}_PARAMETERS {{ parameters | length }}
#define {{ NAME }}_DOSES {{ doses | length }}
#define {{ NAME }}_EVENTS {{ events }}

/* Sampling interval{{ " in " ~ t_unit | c_comment if t_unit }}, of irregular times the longest, Runge-Kutta steps in it, and whether
   the input is linear (1) or held (0) between samples, where the model was identified. */
#define {{ NAME }}_INTERVAL {{ interval }}
#define {{ NAME }}_STEPS {{ steps }}
#define {{ NAME }}_LINEAR_INPUT {{ linear_input }}

/* Names in the order of x, u, y and p, and the parameters as identified. A table that would be
   empty has one entry that is not used. */
extern const char *const {{ name }}_state_names[];
extern const char *const {{ name }}_input_names[];
extern const char *const {{ name }}_output_names[];
extern const char *const {{ name }}_parameter_names[];
extern const double {{ name }}_parameters[];

{% if doses %}
/* Kinds of doses. The last inputs are the rates at which doses of each are given, infusions; they
   are always held between samples. */
extern const char *const {{ name }}_dose_names[];

/* Let an amount of a kind enter its state at once, by its fraction: at the time at which it arrives,
   after the outputs there. 0, and nothing enters, if there is no such kind or the amount is not
   finite. */
int {{ name }}_give(int dose, double amount, const double *p, double *x);

{% endif %}
{% if accumulators %}
/* Set back the states that count since the last sample: after the outputs at each. */
void {{ name }}_reset_accumulators(double *x);

{% endif %}
/* State at the first sample of the record. */
void {{ name }}_initial(const double *p, double *x);

/* Derivative of the state, dx. */
void {{ name }}_rhs(double t, const double *x, const double *u, const double *p, double *dx);

/* Outputs without noise, y. */
void {{ name }}_outputs(double t, const double *x, const double *u, const double *p, double *y);

/* Derivatives, row by row: A and B of dx by x and u, C and D of y by x and u; NULL for one that is
   not wanted. */
void {{ name }}_jacobian(double t, const double *x, const double *u, const double *p,
    double *A, double *B, double *C, double *D);

/* Take so many Runge-Kutta steps of fourth order from t to t + interval; x is replaced. The input
   goes linearly from u to u_end, or is held where u_end is NULL. */
void {{ name }}_advance(double t, double interval, int steps, const double *u, const double *u_end,
    const double *p, double *x{{ ", double *sides" if events }});

{% if events %}
/* Events within a step are found where they have happened at its end; behind more than {{ most_events }} of them,
   or one that happens again at once, x is not a number. The sides of zero on which the expressions of the events have been, {0} at
   first, are kept from one call to the next. */

/* Expressions of the events, g, which cross zero. */
void {{ name }}_indicators(double t, const double *x, const double *u, const double *p, double *g);

/* Let the state jump where an expression has crossed zero from its side; 0 where none has. */
int {{ name }}_jump(double t, const double *u, const double *p, double *x, double *sides);

/* Let time go on, in which an expression leaves zero behind its event. */
void {{ name }}_go_on(double *sides);

{% endif %}
{% if dead_times %}
/* Samples of the inputs that are remembered for their dead times{{ ", or lags of doses," if doses }} at most. */
#define {{ NAME }}_PAST {{ past }}

/* Samples that are remembered, none of {0}; it may be too large for a stack. */
typedef struct {
    int count;
    double t[{{ NAME }}_PAST], u[{{ NAME }}_PAST][{{ NAME }}_INPUTS + {{ NAME }}_DOSES];
{% if doses %}
    double entered[{{ NAME }}_DOSES];
{% endif %}
} {{ name }}_past;

/* Remember a sample u at t, later than those before or in place of the last one; 0 where there is
   no place for it. Inputs that are held (linear is 0) take no place where they have not changed.{% if doses %}

   Behind the inputs u has the sum of the amounts of each kind that have been given at once until t,
   which {{ name }}_advance_past lets enter after their lags; before the first sample there are none.{% endif %} */
int {{ name }}_remember({{ name }}_past *past, double t, const double *u, int linear,
    const double *p);

/* The u of the functions above at t, which are those after the dead times. */
void {{ name }}_delayed(const {{ name }}_past *past, double t, int linear, const double *p, double *u);

/* As {{ name }}_advance, under the samples that are remembered after their dead times: so many steps
   from one arrival to the next. The input is linear (1) or held (0) between samples. */
void {{ name }}_advance_past({{ "" if doses else "const " }}{{ name }}_past *past, double t, double interval, int steps,
    int linear, const double *p, double *x{{ ", double *sides" if events }});

{% endif %}
#ifdef __cplusplus
}
#endif

#endif
