/* The live page: frames of `smcpn.report.live.page` by server-sent events. */
"use strict";
(() => {
  const SECONDS = 10, MOST_POINTS = 6000, MOST_STATES = 600, MOST_PLOTS = 12, SILENT_MS = 3000;
  const LEAST = "least"; // the lower of two curves, which the legend does not name
  const by = (id) => document.getElementById(id);
  const HEADS = [...document.querySelectorAll("#parameters th")].slice(1).map((head) => head.textContent);
  const TIME = by("outputs").dataset.time;
  const short = AXES.short;
  const element = (name, className, text = "") => Object.assign(document.createElement(name), { className, textContent: text });
  const write = (place, text) => { if (place.textContent !== text) place.textContent = text; };

  /* Colours of the style: read once, as each reading has the browser work out the whole page's. */
  const known = new Map();
  const colour = (name) => () => {
    if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };

  /* Columns of the last values; bounded, so that a page may stay open for days. */
  class Ring {
    constructor(columns, most) { this.columns = Array.from({ length: columns }, () => []); this.most = most; }
    push(row) {
      row.forEach((value, i) => this.columns[i].push(value));
      if (this.columns[0].length > 1.5 * this.most) for (const column of this.columns) column.splice(0, column.length - this.most);
    }
    since(t) {
      let a = this.columns[0].length;
      while (a > 0 && this.columns[0][a - 1] >= t) a--;
      return this.columns.map((column) => column.slice(a));
    }
    clear() { for (const column of this.columns) column.length = 0; }
  }

  /* `bands` are pairs of curves with a ground or a tone between them; the legend leaves out what is called LEAST. */
  function plotIn(place, label, curves, bands, height, legend = false) {
    place.append(element("div", "label", label));
    const series = [{ label: TIME }];
    for (const [name, tone, width] of curves) series.push({ label: name, stroke: colour(tone), width, points: { show: false } });
    const plot = new uPlot({
      width: Math.max(place.clientWidth, 200), height: height + 18, series, scales: { x: { time: false }, y: { range: AXES.spread } },
      bands: bands.map(([upper, lower, tone]) => ({ series: [upper, lower], fill: colour(tone) })),
      legend: { show: legend, live: false, markers: { width: 0, fill: (plot, i) => plot.series[i].stroke(plot, i) } }, cursor: { show: false },
      axes: AXES.both(colour, TIME),
    }, curves.map(() => []).concat([[]]), place);
    for (const row of place.querySelectorAll(".u-legend .u-series")) if (row.textContent === LEAST) row.style.display = "none";
    new ResizeObserver(() => { if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height: height + 18 }); }).observe(place);
    return plot;
  }

  /* Each curve is drawn by its greatest and least value in a frame, which are one where a frame has every sample. */
  const twice = (name, tone, width) => [[name, tone, width], [LEAST, tone, width]];
  const INTERVAL = [["97.5 %", "band", 1], ["2.5 %", "band", 1]];
  const outputs = JSON.parse(by("outputs").dataset.names).map((name) => {
    const place = element("div", "plot"), over = `${name}: measured and predicted one sample ahead, 95 % band`;
    by("outputs").append(place);
    return {
      ring: new Ring(9, MOST_POINTS),
      over: plotIn(place, over, [...INTERVAL, ...twice("measured", "data", 1.5), ...twice("predicted", "model", 1)],
        [[1, 2, "band"], [3, 4, "data"]], 230, true),
      residual: plotIn(place, `${name}: residual in predicted standard deviations; 95 % lie in the band`,
        [...INTERVAL, ...twice("residual", "model", 1)], [[1, 2, "band"], [3, 4, "data"]], 150),
    };
  });
  const histories = new Map(), boxes = new Map(), rows = new Map();
  let latest = null, state = null, changed = false, asked = false, heard = 0, grew = 0, run = "", ended = false;
  window.drawn = 0;

  const least = (values) => values.reduce((a, b) => (a == null || (b != null && b < a) ? b : a), null);
  const greatest = (values) => values.reduce((a, b) => (a == null || (b != null && b > a) ? b : a), null);

  /* Upper end of the band, lower end, then the greatest and the least of measured, predicted and residual. */
  function ends(frame, j, some) {
    const rows = some.map((k) => {
      const y = frame.y[k][j], m = frame.predicted[k][j], s = frame.sd[k][j], known = m != null && s != null;
      return [known ? m + 1.96 * s : null, known ? m - 1.96 * s : null, y, m, known && y != null ? (y - m) / s : null];
    });
    const column = (i) => rows.map((row) => row[i]);
    return [greatest(column(0)), least(column(1)), ...[2, 3, 4].flatMap((i) => [greatest(column(i)), least(column(i))])];
  }

  function take(frame) {
    if (!latest || frame.samples !== latest.samples) grew = Date.now();
    latest = frame;
    const rows = frame.t.map((_, k) => [k]);
    // Of a frame that has too many samples there are those of extreme values: it is one column of pixels.
    for (const some of frame.thinned ? [frame.t.map((_, k) => k)] : rows) outputs.forEach(({ ring }, j) => {
      for (const t of new Set([frame.t[some[0]], frame.t[some[some.length - 1]]])) ring.push([t, ...ends(frame, j, some)]);
    });
    ended = frame.over;
    if (frame.state) note(frame.state);
  }

  function note(found) {
    state = found;
    changed = true;
    for (const [name, mean, , low, high] of state.parameters.slice(0, MOST_PLOTS)) {
      if (!histories.has(name)) {
        const place = element("div", "plot");
        by("histories").append(place);
        histories.set(name, { ring: new Ring(4, MOST_STATES), plot: plotIn(place, `${name}, mean and 95 % interval`, [...INTERVAL, ["mean", "model", 1.5]], [[1, 2, "band"]], 150) });
      }
      const { ring } = histories.get(name), times = ring.columns[0];
      if (!times.length || state.time > times[times.length - 1]) ring.push([state.time, high, low, mean]);
    }
  }

  function fact(name, value) {
    if (!boxes.has(name)) {
      const box = element("div", "");
      box.append(element("dt", "", name), element("dd", ""));
      by("facts").append(box);
      boxes.set(name, box);
    }
    const box = boxes.get(name);
    write(box.lastChild, String(value));
    box.className = name === "alarms" && value ? "bad" : "";
  }

  function facts() {
    const frame = latest;
    fact("samples", frame.samples);
    fact("samples per second", short(frame.rate, 3));
    fact("waiting", frame.waiting);
    fact("alarms", frame.alarms);
    const text = frame.events.join("\n");
    if (text && by("events").dataset.text !== text) {
      by("events").dataset.text = text;
      by("events").replaceChildren(...frame.events.slice().reverse().map((one) => element("p", "", one)));
    }
    if (!state) return;
    fact(TIME, short(state.time, 6));
    fact("effective particles", short(state.ess, 3));
    fact("latency, median (ms)", short(1e3 * state.p50, 3));
    fact("latency, 99 % (ms)", short(1e3 * state.p99, 3));
    if (state.in_time !== null) fact("within the budget", `${(100 * state.in_time).toFixed(2)} %`);
    fact("samples to catch up with", state.lag);
    const words = [state.degraded ? "rough: few particles count" : "", state.approximate].filter(Boolean).join("; ");
    by("state").hidden = false;
    write(by("state"), words || "up to date");
    by("state").className = state.degraded ? "pill bad" : "pill";
  }

  function table() {
    for (const [name, ...values] of state.parameters) {
      if (!rows.has(name)) {
        const row = element("tr", "");
        row.append(element("td", "words", name), ...HEADS.map((head) => { const cell = element("td", ""); cell.dataset.head = head; return cell; }));
        by("parameters").querySelector("tbody").append(row);
        rows.set(name, row);
      }
      values.forEach((value, i) => write(rows.get(name).children[i + 1], short(value, 5)));
    }
  }

  function draw() {
    asked = false;
    for (const { ring, over, residual } of outputs) {
      const all = ring.columns[0], [t, high, low, ...curves] = ring.since(all[all.length - 1] - SECONDS);
      over.setData([t, high, low, ...curves.slice(0, 4)]);
      residual.setData([t, t.map(() => 1.96), t.map(() => -1.96), ...curves.slice(4)]);
    }
    if (changed || ended || !state) facts();
    if (changed) {
      changed = false;
      table();
      for (const { ring, plot } of histories.values()) plot.setData(ring.since(-Infinity));
    }
    window.drawn += 1;
  }

  /* Once for all that came since: never while nobody sees the page. */
  function ask() {
    if (!asked) requestAnimationFrame(draw);
    asked = true;
  }

  function show(text, className) { write(by("status"), text); by("status").className = `pill ${className}`; }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { known.clear(); if (latest) ask(); });
  const source = new EventSource("events");
  source.addEventListener("run", ({ data }) => {
    if (run && run !== data) {
      for (const { ring } of outputs) ring.clear();
      for (const { ring } of histories.values()) ring.clear();
    }
    run = data;
  });
  source.onmessage = ({ data }) => {
    heard = Date.now();
    JSON.parse(data).forEach(take);
    const still = Math.floor((Date.now() - grew) / 1000), silent = still * 1000 >= SILENT_MS;
    const waits = latest.samples ? (silent ? `no sample for ${still} s` : "live") : "waiting for samples";
    show(ended ? "stream ended" : waits, ended || silent || !latest.samples ? "" : "good");
    if (ended) source.close();
    ask();
  };
  source.onerror = () => { if (!ended) show("connection lost, trying again", "bad"); };
  setInterval(() => {
    if (!ended && source.readyState === EventSource.OPEN && heard && Date.now() - heard > SILENT_MS) show("nothing received", "bad");
  }, 1000);
})();
