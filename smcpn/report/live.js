/* The live page: frames of `smcpn.live.page` by server-sent events. */
"use strict";
(() => {
  const SECONDS = 10, MOST_POINTS = 6000, MOST_FRAMES = 1200, MOST_PLOTS = 12, SILENT_MS = 3000;
  const by = (id) => document.getElementById(id);
  const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const short = (value, digits = 4) => (value == null ? "–" : Number(value.toPrecision(digits)).toString());
  const element = (name, className, text = "") => Object.assign(document.createElement(name), { className, textContent: text });

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

  /* Width of the y axis: that of its longest number. */
  const room = (_, values) => Math.max(64, 16 + 7 * Math.max(0, ...(values ?? []).map((value) => (value ?? "").length)));

  function plotIn(place, label, curves, height, legend = false) {
    place.append(element("div", "label", label));
    const series = [{ label: "time (s)" }];
    for (const [name, tone, width] of curves) series.push({ label: name, stroke: colour(tone), width, points: { show: false } });
    const axis = { stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot({
      width: Math.max(place.clientWidth, 200), height, series, scales: { x: { time: false } },
      bands: [{ series: [1, 2], fill: colour("band") }], legend: { show: legend, live: false, markers: { width: 0, fill: (plot, i) => plot.series[i].stroke(plot, i) } }, cursor: { show: false },
      axes: [{ ...axis, space: 70, size: 28 }, { ...axis, size: room }],
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
      over: plotIn(place, `${name}: measured and predicted one sample ahead, 95 % band`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["measured", "data", 2], ["predicted", "model", 1]], 230, true),
      residual: plotIn(place, `${name}: residual in predicted standard deviations; 95 % lie in the band`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["residual", "model", 1]], 150),
    };
  });
  const histories = new Map();
  let latest = null, heard = 0, run = "", ended = false, dirty = false;
  window.drawn = 0;

  function take(frame) {
    latest = frame;
    frame.t.forEach((t, k) => outputs.forEach(({ ring }, j) => {
      const y = frame.y[k][j], m = frame.predicted[k][j], s = frame.sd[k][j];
      const known = m != null && s != null;
      ring.push([t, known ? m + 1.96 * s : null, known ? m - 1.96 * s : null, y, m, known && y != null ? (y - m) / s : null]);
    }));
    for (const [name, mean, , low, high] of (frame.state?.parameters ?? []).slice(0, MOST_PLOTS)) {
      if (!histories.has(name)) {
        const place = element("div", "plot");
        by("histories").append(place);
        histories.set(name, { ring: new Ring(4, MOST_FRAMES), plot: plotIn(place, `${name}, mean and 95 % interval`, [["97.5 %", "band", 1], ["2.5 %", "band", 1], ["mean", "model", 1.5]], 150) });
      }
      const { ring } = histories.get(name), times = ring.columns[0];
      if (!times.length || frame.state.time > times[times.length - 1]) ring.push([frame.state.time, high, low, mean]);
    }
    ended = frame.over;
    dirty = true;
  }

  function facts(frame) {
    const state = frame.state;
    const rows = [["samples", frame.samples], ["samples per second", short(frame.rate, 3)], ["waiting", frame.waiting], ["alarms", frame.alarms]];
    if (state) rows.push(["time (s)", short(state.time, 6)], ["effective particles", short(state.ess, 3)],
      ["latency, median (ms)", short(1e3 * state.p50, 3)], ["latency, 99 % (ms)", short(1e3 * state.p99, 3)],
      ["within the budget", `${(100 * state.in_time).toFixed(2)} %`], ["rejuvenation behind by", state.lag]);
    by("facts").replaceChildren(...rows.map(([name, value]) => {
      const box = element("div", name === "alarms" && value ? "bad" : "");
      box.append(element("dt", "", name), element("dd", "", String(value)));
      return box;
    }));
    by("parameters").replaceChildren(...(state?.parameters ?? []).map(([name, ...values]) => {
      const row = element("tr", "");
      row.append(element("td", "", name));
      values.forEach((value, i) => {
        const cell = element("td", "", short(value, 5));
        cell.dataset.head = ["mean", "sd", "2.5 %", "97.5 %"][i];
        row.append(cell);
      });
      return row;
    }));
    if (frame.events.length) by("events").replaceChildren(...frame.events.slice().reverse().map((text) => element("p", "", text)));
    const words = state && [state.degraded ? "degraded: few particles count" : "", state.approximate].filter(Boolean).join("; ");
    by("state").hidden = !state;
    by("state").textContent = words || "not degraded";
    by("state").className = state?.degraded ? "pill bad" : "pill";
  }

  function draw() {
    if (dirty && latest) {
      dirty = false;
      facts(latest);
      for (const { ring, over, residual } of outputs) {
        const all = ring.columns[0], [t, high, low, y, m, e] = ring.since(all[all.length - 1] - SECONDS);
        over.setData([t, high, low, y, m]);
        residual.setData([t, t.map(() => 1.96), t.map(() => -1.96), e]);
      }
      for (const { ring, plot } of histories.values()) plot.setData(ring.since(-Infinity));
      window.drawn += 1;
    }
    requestAnimationFrame(draw);
  }

  function show(text, className) { by("status").textContent = text; by("status").className = `pill ${className}`; }
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
    show(ended ? "stream ended" : "live", ended ? "" : "good");
    if (ended) source.close();
  };
  source.onerror = () => { if (!ended) show("connection lost, trying again", "bad"); };
  setInterval(() => {
    if (!ended && source.readyState === EventSource.OPEN && heard && Date.now() - heard > SILENT_MS) show("nothing received", "bad");
  }, 1000);
  requestAnimationFrame(draw);
})();
