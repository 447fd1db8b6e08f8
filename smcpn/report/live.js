/* The live page: frames of `smcpn.live.page` by server-sent events. */
"use strict";
(() => {
  const SECONDS = 10, MOST_POINTS = 6000, MOST_STATES = 600, MOST_PLOTS = 12, SILENT_MS = 3000;
  const HEADS = ["mean", "sd", "2.5 %", "97.5 %"];
  const by = (id) => document.getElementById(id);
  const TIME = by("outputs").dataset.time;
  const short = (value, digits = 4) => (value == null ? "–" : Number(value.toPrecision(digits)).toString());
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

  /* Width of the y axis: room for its longest number, in steps, so that most panels stay aligned. */
  const room = (_, values) => {
    const longest = Math.max(0, ...(values ?? []).map((value) => (value ?? "").length));
    return 64 + 48 * Math.ceil(Math.max(0, 7 * longest - 48) / 48);
  };

  /* Numbers of the y axis, with as many digits as tell them apart. */
  const figures = (_, splits, __, ___, step) => {
    const largest = Math.max(...splits.map((value) => Math.abs(value ?? 0)));
    const digits = Math.min(15, Math.max(1, 2 + Math.floor(Math.log10(largest / step || 1))));
    return splits.map((value) => (value == null ? "" : short(value, digits)));
  };

  /* Range of the y axis; of a constant it has a width that numbers can tell apart. */
  const spread = (_, low, high) => {
    if (low == null) return [null, null];
    const least = 1e-6 * Math.max(Math.abs(low), Math.abs(high)), add = high - low < least ? least : 0;
    return uPlot.rangeNum(low - add, high + add, 0.1, true);
  };

  function plotIn(place, label, curves, height, legend = false) {
    place.append(element("div", "label", label));
    const series = [{ label: TIME }];
    for (const [name, tone, width] of curves) series.push({ label: name, stroke: colour(tone), width, points: { show: false } });
    const axis = { stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot({
      width: Math.max(place.clientWidth, 200), height, series, scales: { x: { time: false }, y: { range: spread } },
      bands: [{ series: [1, 2], fill: colour("band") }], legend: { show: legend, live: false, markers: { width: 0, fill: (plot, i) => plot.series[i].stroke(plot, i) } }, cursor: { show: false },
      axes: [{ ...axis, space: 70, size: 28 }, { ...axis, size: room, values: figures }],
    }, curves.map(() => []).concat([[]]), place);
    new ResizeObserver(() => { if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height }); }).observe(place);
    return plot;
  }

  const names = JSON.parse(by("outputs").dataset.names);
  const outputs = names.map((name) => {
    const place = element("div", "plot");
    by("outputs").append(place);
    return {
      ring: new Ring(6, MOST_POINTS),
      over: plotIn(place, `${name}: measured and predicted one sample ahead, 95 % band`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["measured", "data", 1.5], ["predicted", "model", 1]], 230, true),
      residual: plotIn(place, `${name}: residual in predicted standard deviations; 95 % lie in the band`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["residual", "model", 1]], 150),
    };
  });
  const histories = new Map(), boxes = new Map(), rows = new Map();
  let latest = null, state = null, changed = false, asked = false, heard = 0, grew = 0, run = "", ended = false;
  window.drawn = 0;

  function take(frame) {
    if (!latest || frame.samples !== latest.samples) grew = Date.now();
    latest = frame;
    frame.t.forEach((t, k) => outputs.forEach(({ ring }, j) => {
      const y = frame.y[k][j], m = frame.predicted[k][j], s = frame.sd[k][j];
      const known = m != null && s != null;
      ring.push([t, known ? m + 1.96 * s : null, known ? m - 1.96 * s : null, y, m, known && y != null ? (y - m) / s : null]);
    }));
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
        histories.set(name, { ring: new Ring(4, MOST_STATES), plot: plotIn(place, `${name}, mean and 95 % interval`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["mean", "model", 1.5]], 150) });
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
        row.append(element("td", "", name), ...HEADS.map((head) => { const cell = element("td", ""); cell.dataset.head = head; return cell; }));
        by("parameters").append(row);
        rows.set(name, row);
      }
      values.forEach((value, i) => write(rows.get(name).children[i + 1], short(value, 5)));
    }
  }

  function draw() {
    asked = false;
    for (const { ring, over, residual } of outputs) {
      const all = ring.columns[0], [t, high, low, y, m, e] = ring.since(all[all.length - 1] - SECONDS);
      over.setData([t, high, low, y, m]);
      residual.setData([t, t.map(() => 1.96), t.map(() => -1.96), e]);
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
