/* Draws every figure.plot from its data-plot attribute; `smcpn.report.plots` writes it. */
"use strict";
(() => {
  const colour = (name) => () =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const STYLES = {
    data: { colour: "data", width: 2 },
    model: { colour: "model", width: 1 },
    second: { colour: "accent", width: 1, dash: [5, 3] },
    model0: { colour: "model", width: 1 },
    model1: { colour: "model1", width: 1, dash: [6, 3] },
    model2: { colour: "model2", width: 1, dash: [2, 2] },
    model3: { colour: "model3", width: 1, dash: [9, 3, 2, 3] },
    model4: { colour: "model4", width: 1, dash: [12, 4] },
    model5: { colour: "model5", width: 1 },
  };

  /* Samples from base64: bytes grouped by significance, deflated; floats, or zigzag differences of steps. */
  async function unpacked({ n, step, deflated }) {
    const raw = Uint8Array.from(atob(deflated), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const bytes = new Uint8Array(4 * n);
    for (let k = 0; k < 4; k++) for (let i = 0; i < n; i++) bytes[4 * i + k] = planes[k * n + i];
    const view = new DataView(bytes.buffer);
    const values = new Float64Array(n);
    if (!step) for (let i = 0; i < n; i++) values[i] = view.getFloat32(4 * i, true);
    else
      for (let i = 0, count = 0; i < n; i++) {
        const word = view.getUint32(4 * i, true);
        count += word & 1 ? -(word + 1) / 2 : word / 2;
        values[i] = count * step;
      }
    return values;
  }

  async function times(t) {
    if (!t.after) return Float64Array.from({ length: t.n }, (_, i) => t.start + t.step * i);
    return (await unpacked(t.after)).map((after) => t.start + after);
  }

  /* Sum of arrays, each with its factor; null, which is a gap, where it is no number. */
  function sum(terms, arrays) {
    const values = new Float64Array(arrays[terms[0][1]].length);
    for (const [factor, name] of terms) {
      const added = arrays[name];
      for (let i = 0; i < values.length; i++) values[i] += factor * added[i];
    }
    return values.some(Number.isNaN) ? Array.from(values, (v) => (Number.isNaN(v) ? null : v)) : values;
  }

  const number = (_, value) => AXES.short(value, 6);

  function options(panel, number_of_panel, group, content) {
    const { time, shaded } = content, last = number_of_panel === content.panels.length - 1;
    const series = [{ label: time, value: number }];
    for (const label of panel.band ? ["97.5 %", "2.5 %"] : [])
      series.push({ label, stroke: colour("band"), width: 1, points: { show: false }, value: number });
    for (const curve of panel.curves) {
      const style = STYLES[curve.role] || STYLES.model5;
      series.push({
        label: curve.label, stroke: colour(style.colour), width: style.width, dash: style.dash, value: number,
        ...(curve.points ? { points: { show: true, size: 6, width: 0, fill: colour(style.colour) } } : {}),
      });
    }
    return {
      width: 300,
      height: (number_of_panel ? 210 : 260) + (last ? 18 : 0),
      scales: { x: { time: false }, y: { range: AXES.spread } },
      series,
      bands: panel.band ? [{ series: [1, 2], fill: colour("band") }] : [],
      axes: AXES.both(colour, last ? time : undefined),
      cursor: { sync: { key: group.key }, drag: { x: true, y: false } },
      legend: { markers: { width: 0, fill: (plot, i) => plot.series[i].stroke(plot, i) } },
      hooks: {
        setScale: [(plot, scale) => scale === "x" && group.follow(plot)],
        drawClear: [(plot) => grounds(plot, shaded), (plot) => levels(plot, panel.levels)],
      },
    };
  }

  function grounds(plot, intervals) {
    const { left, top, width, height } = plot.bbox;
    plot.ctx.fillStyle = colour("paper")();
    for (const ends of intervals) {
      const [from, to] = ends.map((t) => Math.min(Math.max(plot.valToPos(t, "x", true), left), left + width));
      plot.ctx.fillRect(from, top, to - from, height);
    }
  }

  function levels(plot, ends) {
    if (!ends) return;
    const [low, high] = ends.map((y) => plot.valToPos(y, "y", true));
    const { left, top, width, height } = plot.bbox;
    const from = Math.max(top, high), to = Math.min(top + height, low);
    if (to <= from) return;
    plot.ctx.fillStyle = colour("band")();
    plot.ctx.fillRect(left, from, width, to - from);
  }

  /* The plots of a figure, whose times zoom together. */
  class Group {
    constructor(key, t) {
      Object.assign(this, { key, plots: [], first: t[0], last: t[t.length - 1], step: (t[t.length - 1] - t[0]) / (t.length - 1) });
    }
    get range() {
      const { min, max } = this.plots[0].scales.x;
      return [min, max];
    }
    go(from, to) {
      const length = Math.min(Math.max(to - from, 4 * this.step), this.last - this.first);
      const min = Math.min(Math.max((from + to - length) / 2, this.first), this.last - length);
      this.plots[0].setScale("x", { min, max: min + length });
    }
    zoom(factor, at) {
      const [min, max] = this.range, centre = at ?? (min + max) / 2;
      this.go(centre + (min - centre) * factor, centre + (max - centre) * factor);
    }
    pan(share) {
      const [min, max] = this.range, by = share * (max - min);
      this.go(min + by, max + by);
    }
    follow(leader) {
      const { min, max } = leader.scales.x;
      for (const plot of this.plots)
        if (plot !== leader && (plot.scales.x.min !== min || plot.scales.x.max !== max))
          plot.setScale("x", { min, max });
    }
  }

  const element = (name, className, text = "") =>
    Object.assign(document.createElement(name), { className, textContent: text });

  function buttons(group, mark) {
    const bar = element("div", "bar");
    const add = (text, name, act) => {
      const button = element("button", "", text);
      button.type = "button";
      button.title = name;
      button.setAttribute("aria-label", name);
      button.addEventListener("click", act);
      bar.append(button);
    };
    add("all", "whole record", () => group.go(group.first, group.last));
    add("−", "zoom out", () => group.zoom(2));
    add("+", "zoom in", () => group.zoom(0.5));
    add("‹", "earlier", () => group.pan(-0.5));
    add("›", "later", () => group.pan(0.5));
    if (mark) add(mark[0], `go to the ${mark[0]}`, () => group.go(mark[1], mark[2]));
    return bar;
  }

  async function draw(figure, key) {
    const content = JSON.parse(figure.dataset.plot);
    figure.removeAttribute("data-plot");
    const t = await times(content.t), arrays = {};
    for (const name of Object.keys(content.arrays)) arrays[name] = await unpacked(content.arrays[name]);
    const group = new Group(key, t), place = element("div", "panels");
    figure.prepend(place);
    content.panels.forEach((panel, i) => {
      place.append(element("div", "label", panel.label));
      const curves = panel.curves.map((curve) => sum(curve.terms, arrays));
      const band = panel.band ? [sum(panel.band[1], arrays), sum(panel.band[0], arrays)] : [];
      group.plots.push(new uPlot(options(panel, i, group, content), [t, ...band, ...curves], place));
    });
    place.append(buttons(group, content.mark));
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const over = group.plots[0].over.getBoundingClientRect();
      group.zoom(event.deltaY > 0 ? 1.25 : 0.8, group.plots[0].posToVal(event.clientX - over.left, "x"));
    }, { passive: false });
    figure.group = group;
    figure.classList.add("live");
    new ResizeObserver(() => {
      for (const plot of group.plots)
        if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height: plot.height });
    }).observe(place);
  }

  /* Drawn when it comes near the window, so that a page of many long records opens at once. */
  const figures = [...document.querySelectorAll("figure.plot[data-plot]")];
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target, `plot${figures.indexOf(target)}`).catch((error) => console.error(error));
    }
  }, { rootMargin: "600px" });
  for (const figure of figures) near.observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const figure of figures) for (const plot of figure.group?.plots ?? []) plot.redraw(false);
  });
})();
