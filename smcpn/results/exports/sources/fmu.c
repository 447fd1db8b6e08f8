{{ begin }}{{ comment }} FMI 3.0: co-simulation with the model's own Runge-Kutta steps, and model exchange. */
#include "{{ name }}.h"

#include "fmi3Functions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
/* Signatures are those of the standard. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

/* Value references: time, then the variables of each kind one after the other. */
enum {
    INPUT = 1,
    OUTPUT = INPUT + {{ NAME }}_INPUTS + {{ NAME }}_DOSES,
    STATE = OUTPUT + {{ NAME }}_OUTPUTS,
    DERIVATIVE = STATE + {{ NAME }}_STATES,
    PARAMETER = DERIVATIVE + {{ NAME }}_STATES,
    EVENT = PARAMETER + {{ NAME }}_PARAMETERS,
    END = EVENT + {{ NAME }}_EVENTS
};

typedef struct {
    double t;
    double u[{{ NAME }}_INPUTS + {{ NAME }}_DOSES + 1];
    double x[{{ NAME }}_STATES];
    double p[{{ NAME }}_PARAMETERS + 1];
{% if events %}
    double sides[{{ NAME }}_EVENTS];
{% endif %}
    int initialised, state_given;
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback logMessage;
{% if dead_times %}
    {{ name }}_past past;
{% elif doses %}
    double entered[{{ NAME }}_DOSES];
{% endif %}
} Instance;

static void start(Instance *one, fmi3InstanceEnvironment environment,
    fmi3LogMessageCallback logMessage)
{
    memset(one, 0, sizeof *one);
    one->environment = environment;
    one->logMessage = logMessage;
    memcpy(one->p, {{ name }}_parameters, {{ NAME }}_PARAMETERS * sizeof(double));
    {{ name }}_initial(one->p, one->x);
}

static fmi3Instance made(fmi3String token, fmi3InstanceEnvironment environment,
    fmi3LogMessageCallback logMessage)
{
    Instance *one;
    if (token == NULL || strcmp(token, "{{ token }}") != 0)
        return NULL;
    one = malloc(sizeof *one);
    if (one != NULL)
        start(one, environment, logMessage);
    return one;
}

static fmi3Status failed(const Instance *one, fmi3String message)
{
    if (one->logMessage != NULL)
        one->logMessage(one->environment, fmi3Error, "logStatusError", message);
    return fmi3Error;
}
{% if dead_times %}

/* Remember the inputs at t; those that are set again there take their place. */
static fmi3Status remember(Instance *one, double t)
{
    if ({{ name }}_remember(&one->past, t, one->u, 0, one->p))
        return fmi3OK;
    return failed(one, "The inputs changed more often than {{ past }} times within a dead time: "
        "take communication steps of {{ interval }} or more, the sampling interval of the record "
        "of which this model was made, or make it of a record with shorter ones.");
}
{% endif %}

{% if doses and not dead_times %}

/* Let what was given since the last time enter; 1 if there is some. */
static int give(Instance *one)
{
    int k, some = 0;
    for (k = 0; k < {{ NAME }}_DOSES; k++) {
        const double amount = one->u[{{ NAME }}_INPUTS + k] - one->entered[k];
        {{ name }}_give(k, amount, one->p, one->x);
        one->entered[k] = one->u[{{ NAME }}_INPUTS + k];
        some |= amount != 0.0;
    }
    return some;
}
{% endif %}

const char *fmi3GetVersion(void) { return fmi3Version; }

fmi3Instance fmi3InstantiateCoSimulation(fmi3String instanceName, fmi3String instantiationToken,
    fmi3String resourcePath, fmi3Boolean visible, fmi3Boolean loggingOn, fmi3Boolean eventModeUsed,
    fmi3Boolean earlyReturnAllowed, const fmi3ValueReference requiredIntermediateVariables[],
    size_t nRequiredIntermediateVariables, fmi3InstanceEnvironment instanceEnvironment,
    fmi3LogMessageCallback logMessage, fmi3IntermediateUpdateCallback intermediateUpdate)
{
    return made(instantiationToken, instanceEnvironment, logMessage);
}

fmi3Instance fmi3InstantiateModelExchange(fmi3String instanceName, fmi3String instantiationToken,
    fmi3String resourcePath, fmi3Boolean visible, fmi3Boolean loggingOn,
    fmi3InstanceEnvironment instanceEnvironment, fmi3LogMessageCallback logMessage)
{
    return {{ "made(instantiationToken, instanceEnvironment, logMessage)" if exchanged else "NULL" }};
}

void fmi3FreeInstance(fmi3Instance instance) { free(instance); }

fmi3Status fmi3Reset(fmi3Instance instance)
{
    Instance *one = instance;
    start(one, one->environment, one->logMessage);
    return fmi3OK;
}

fmi3Status fmi3EnterInitializationMode(fmi3Instance instance, fmi3Boolean toleranceDefined,
    fmi3Float64 tolerance, fmi3Float64 startTime, fmi3Boolean stopTimeDefined,
    fmi3Float64 stopTime)
{
    ((Instance *) instance)->t = startTime;
{% if dead_times %}
    ((Instance *) instance)->past.count = 0;
{% endif %}
    return fmi3OK;
}

fmi3Status fmi3ExitInitializationMode(fmi3Instance instance)
{
    ((Instance *) instance)->initialised = 1;
    return fmi3OK;
}

fmi3Status fmi3GetFloat64(fmi3Instance instance, const fmi3ValueReference valueReferences[],
    size_t nValueReferences, fmi3Float64 values[], size_t nValues)
{
    {{ "" if dead_times else "const " }}Instance *one = instance;
    double y[{{ NAME }}_OUTPUTS], dx[{{ NAME }}_STATES], g[{{ NAME }}_EVENTS + 1] = {0};
{% if dead_times %}
    double u[{{ NAME }}_INPUTS];
{% endif %}
    size_t k;
    if (nValues != nValueReferences)
        return fmi3Error;
{% if dead_times %}
    if (remember(one, one->t) != fmi3OK)
        return fmi3Error;
    {{ name }}_delayed(&one->past, one->t, 0, one->p, u);
{% endif %}
    {{ name }}_outputs(one->t, one->x, {{ "u" if dead_times else "one->u" }}, one->p, y);
    {{ name }}_rhs(one->t, one->x, {{ "u" if dead_times else "one->u" }}, one->p, dx);
{% if events %}
    {{ name }}_indicators(one->t, one->x, {{ "u" if dead_times else "one->u" }}, one->p, g);
{% endif %}
    for (k = 0; k < nValues; k++) {
        const fmi3ValueReference at = valueReferences[k];
        if (at >= END)
            return fmi3Error;
        values[k] = at < INPUT ? one->t
            : at < OUTPUT ? one->u[at - INPUT]
            : at < STATE ? y[at - OUTPUT]
            : at < DERIVATIVE ? one->x[at - STATE]
            : at < PARAMETER ? dx[at - DERIVATIVE]
            : at < EVENT ? one->p[at - PARAMETER]
            : g[at - EVENT];
    }
    return fmi3OK;
}

fmi3Status fmi3SetFloat64(fmi3Instance instance, const fmi3ValueReference valueReferences[],
    size_t nValueReferences, const fmi3Float64 values[], size_t nValues)
{
    Instance *one = instance;
    size_t k;
    if (nValues != nValueReferences)
        return fmi3Error;
    for (k = 0; k < nValues; k++) {
        const fmi3ValueReference at = valueReferences[k];
{% for place in fixed %}
        if (one->initialised && at == PARAMETER + {{ place }})
            return failed(one, "A dead time is set before the end of initialisation.");
{% endfor %}
{% if doses %}
        if (at >= INPUT + {{ NAME }}_INPUTS && at < OUTPUT && !isfinite(values[k]))
            return failed(one, "An amount that was given is not a finite number.");
{% endif %}
        if (at >= INPUT && at < OUTPUT)
            one->u[at - INPUT] = values[k];
        else if (at >= STATE && at < DERIVATIVE && !one->initialised) {
            one->x[at - STATE] = values[k];
            one->state_given = 1;
        } else if (at >= PARAMETER && at < EVENT)
            one->p[at - PARAMETER] = values[k];
        else
            return fmi3Error;
    }
    /* A parameter may be an initial state. */
    if (!one->initialised && !one->state_given)
        {{ name }}_initial(one->p, one->x);
    return fmi3OK;
}

fmi3Status fmi3DoStep(fmi3Instance instance, fmi3Float64 currentCommunicationPoint,
    fmi3Float64 communicationStepSize, fmi3Boolean noSetFMUStatePriorToCurrentPoint,
    fmi3Boolean *eventHandlingNeeded, fmi3Boolean *terminateSimulation, fmi3Boolean *earlyReturn,
    fmi3Float64 *lastSuccessfulTime)
{
    Instance *one = instance;
    const double most = {{ NAME }}_INTERVAL / {{ NAME }}_STEPS;
    const double steps = ceil(communicationStepSize / most - 1e-6);
    int k;
    *eventHandlingNeeded = *terminateSimulation = *earlyReturn = fmi3False;
    *lastSuccessfulTime = currentCommunicationPoint;
    if (!(communicationStepSize > 0.0 && steps < 1e9))
        return fmi3Error;
{% if accumulators %}
    {{ name }}_reset_accumulators(one->x);
{% endif %}
{% if dead_times %}
    if (remember(one, currentCommunicationPoint) != fmi3OK)
        return fmi3Error;
    {{ name }}_advance_past(&one->past, currentCommunicationPoint, communicationStepSize,
        steps < 1 ? 1 : (int) steps, 0, one->p, one->x{{ ", one->sides" if events }});
{% else %}
{% if doses %}
    (void) give(one);
{% endif %}
    {{ name }}_advance(currentCommunicationPoint, communicationStepSize, steps < 1 ? 1 : (int) steps,
        one->u, NULL, one->p, one->x{{ ", one->sides" if events }});
{% endif %}
    for (k = 0; k < {{ NAME }}_STATES; k++)
        if (!isfinite(one->x[k]))
            return failed(one, "The state is not finite any more: see to the inputs and parameters.");
    one->t = *lastSuccessfulTime = currentCommunicationPoint + communicationStepSize;
    return fmi3OK;
}

/* Model exchange. */

fmi3Status fmi3SetTime(fmi3Instance instance, fmi3Float64 time)
{
    ((Instance *) instance)->t = time;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance instance, size_t *nContinuousStates)
{
    *nContinuousStates = {{ NAME }}_STATES;
    return fmi3OK;
}

fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance instance, size_t *nEventIndicators)
{
    *nEventIndicators = {{ NAME }}_EVENTS;
    return fmi3OK;
}

fmi3Status fmi3GetEventIndicators(fmi3Instance instance, fmi3Float64 eventIndicators[],
    size_t nEventIndicators)
{
{% if events %}
    const Instance *one = instance;
    if (nEventIndicators == {{ NAME }}_EVENTS)
        {{ name }}_indicators(one->t, one->x, one->u, one->p, eventIndicators);
{% endif %}
    return nEventIndicators == {{ NAME }}_EVENTS ? fmi3OK : fmi3Error;
}

fmi3Status fmi3GetContinuousStates(fmi3Instance instance, fmi3Float64 continuousStates[],
    size_t nContinuousStates)
{
    if (nContinuousStates != {{ NAME }}_STATES)
        return fmi3Error;
    memcpy(continuousStates, ((Instance *) instance)->x, sizeof ((Instance *) instance)->x);
    return fmi3OK;
}

fmi3Status fmi3SetContinuousStates(fmi3Instance instance, const fmi3Float64 continuousStates[],
    size_t nContinuousStates)
{
    if (nContinuousStates != {{ NAME }}_STATES)
        return fmi3Error;
    memcpy(((Instance *) instance)->x, continuousStates, sizeof ((Instance *) instance)->x);
    return fmi3OK;
}

fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance instance, fmi3Float64 derivatives[],
    size_t nContinuousStates)
{
    const Instance *one = instance;
    if (nContinuousStates != {{ NAME }}_STATES)
        return fmi3Error;
    {{ name }}_rhs(one->t, one->x, one->u, one->p, derivatives);
    return fmi3OK;
}

fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance instance, fmi3Float64 nominals[],
    size_t nContinuousStates)
{
    size_t k;
    for (k = 0; k < nContinuousStates; k++)
        nominals[k] = 1.0;
    return fmi3OK;
}

fmi3Status fmi3CompletedIntegratorStep(fmi3Instance instance,
    fmi3Boolean noSetFMUStatePriorToCurrentPoint, fmi3Boolean *enterEventMode,
    fmi3Boolean *terminateSimulation)
{
{% if exchanged and events %}
    {{ name }}_go_on(((Instance *) instance)->sides);
{% endif %}
    *enterEventMode = *terminateSimulation = fmi3False;
    return fmi3OK;
}

fmi3Status fmi3UpdateDiscreteStates(fmi3Instance instance, fmi3Boolean *discreteStatesNeedUpdate,
    fmi3Boolean *terminateSimulation, fmi3Boolean *nominalsOfContinuousStatesChanged,
    fmi3Boolean *valuesOfContinuousStatesChanged, fmi3Boolean *nextEventTimeDefined,
    fmi3Float64 *nextEventTime)
{
{% if exchanged and (doses or events) %}
    Instance *one = instance;
{% endif %}
    *discreteStatesNeedUpdate = *terminateSimulation = fmi3False;
    *nominalsOfContinuousStatesChanged = fmi3False;
    *valuesOfContinuousStatesChanged = fmi3False;
{% if exchanged and doses %}
    if (give(one))
        *valuesOfContinuousStatesChanged = fmi3True;
{% endif %}
{% if exchanged and events %}
    if ({{ name }}_jump(one->t, one->u, one->p, one->x, one->sides))
        *valuesOfContinuousStatesChanged = fmi3True;
{% endif %}
    *nextEventTimeDefined = fmi3False;
    *nextEventTime = 0.0;
    return fmi3OK;
}

/* The state of an instance, to go back to. */

fmi3Status fmi3GetFMUState(fmi3Instance instance, fmi3FMUState *FMUState)
{
    if (*FMUState == NULL)
        *FMUState = malloc(sizeof(Instance));
    if (*FMUState == NULL)
        return fmi3Error;
    memcpy(*FMUState, instance, sizeof(Instance));
    return fmi3OK;
}

fmi3Status fmi3SetFMUState(fmi3Instance instance, fmi3FMUState FMUState)
{
    memcpy(instance, FMUState, sizeof(Instance));
    return fmi3OK;
}

fmi3Status fmi3FreeFMUState(fmi3Instance instance, fmi3FMUState *FMUState)
{
    free(*FMUState);
    *FMUState = NULL;
    return fmi3OK;
}

/* Changes of mode in which nothing is to be done. */

{% for one in ("EnterEventMode", "EnterContinuousTimeMode", "EnterStepMode", "Terminate", "EvaluateDiscreteStates") %}
fmi3Status fmi3{{ one }}(fmi3Instance instance) { return fmi3OK; }
{% endfor %}

fmi3Status fmi3SetDebugLogging(fmi3Instance instance, fmi3Boolean loggingOn, size_t nCategories,
    const fmi3String categories[])
{
    return fmi3OK;
}

/* What the standard has and this model has not. */

{% for one in ("EnterConfigurationMode", "ExitConfigurationMode") %}
fmi3Status fmi3{{ one }}(fmi3Instance instance) { return fmi3Error; }
{% endfor %}

{% for kind in ("Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Boolean", "String") %}
fmi3Status fmi3Get{{ kind }}(fmi3Instance instance, const fmi3ValueReference valueReferences[],
    size_t nValueReferences, fmi3{{ kind }} values[], size_t nValues)
{
    return nValueReferences == 0 ? fmi3OK : fmi3Error;
}

fmi3Status fmi3Set{{ kind }}(fmi3Instance instance, const fmi3ValueReference valueReferences[],
    size_t nValueReferences, const fmi3{{ kind }} values[], size_t nValues)
{
    return nValueReferences == 0 ? fmi3OK : fmi3Error;
}

{% endfor %}
{% for name, arguments in absent %}
{{ "fmi3Instance" if name.startswith("Instantiate") else "fmi3Status" }} fmi3{{ name }}({{ arguments }})
{
    return {{ "NULL" if name.startswith("Instantiate") else "fmi3Error" }};
}

{% endfor %}
