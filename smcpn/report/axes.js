/* Numbers and ends of axes, of the plots of reports and of the live page. */
"use strict";
const AXES = (() => {
  /* The power of ten, of thousands, that a large or small number is written with. */
  const powerOf = (size) => (size && (size >= 1e6 || size < 1e-3) ? 3 * Math.floor(Math.log10(size) / 3) : 0);
  const withPower = (text, power) => (power && Number(text) ? `${text}e${power}` : text);

  /* A number of so many digits, 1.5, 150e6. */
  const short = (value, digits = 4) => {
    if (value == null) return "–";
    const rounded = Number(value.toPrecision(digits)), power = powerOf(Math.abs(rounded));
    return withPower(Number((rounded / 10 ** power).toPrecision(digits)).toString(), power);
  };

  /* Numbers of an axis: one power of ten for all, and as many digits as tell them apart. */
  const figures = (_, splits, __, ___, step) => {
    const power = powerOf(Math.max(...splits.map((value) => Math.abs(value ?? 0)))), unit = 10 ** power;
    const places = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(step / unit || 1) + 1e-9)));
    const text = (value) => withPower(Number((value / unit).toFixed(places)).toString(), power);
    return splits.map((value) => (value == null ? "" : text(value)));
  };

  /* Width of a y axis: room for its longest number, in steps, so that most panels stay aligned. */
  const room = (_, values) => {
    const longest = Math.max(0, ...(values ?? []).map((value) => (value ?? "").length));
    return 64 + 48 * Math.ceil(Math.max(0, 7 * longest - 48) / 48);
  };

  /* Ends of a y axis; about a constant they are so far apart that numbers can tell them. */
  const spread = (_, low, high) => {
    if (low == null) return [null, null];
    const least = 1e-6 * Math.max(Math.abs(low), Math.abs(high)), add = high - low < least ? least : 0;
    return uPlot.rangeNum(low - add, high + add, 0.1, true);
  };

  /* Both axes of a plot over time; `tone` is that of the ink and of the grid. */
  const both = (tone, time) => {
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: tone("ink"), grid: { stroke: tone("line"), width: 1 }, ticks: { show: false }, font };
    return [
      { ...axis, space: 70, size: 28, label: time, labelSize: 18, labelFont: font, values: figures },
      { ...axis, size: room, values: figures },
    ];
  };

  return { short, spread, both };
})();
