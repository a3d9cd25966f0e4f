"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const controls = document.getElementById("controls");
  const DASHES = [[], [8, 4], [2, 3], [8, 3, 2, 3]]; // one per round through the colors
  const SHADES = [0, 0.45, -0.4, 0.25, -0.2]; // of lines and runs of the same group
  const view = { axis: "frames", smoothing: 0, runs: false, hidden: new Set() };
  const charts = new Map(); // by the element they are drawn into

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const palette = () => data.palettes[root.dataset.theme];
  const color = (group, nth = 0) => shade(palette()[group % palette().length], SHADES[nth % SHADES.length]);
  const dash = (group) => DASHES[Math.floor(group / palette().length) % DASHES.length];

  /** A color nearer to white, or by a negative amount to black. */
  function shade(hex, amount) {
    const end = amount < 0 ? 0 : 255;
    const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const mixed = parts.map((part) => Math.round(part + (end - part) * Math.abs(amount)));
    return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // Numbers

  function digits(value) {
    if (value == null) return "–";
    const size = Math.abs(value);
    return size >= 1e7 || (size > 0 && size < 1e-4)
      ? value.toExponential(5)
      : String(Number(value.toPrecision(6)));
  }

  function tick(value) {
    const size = Math.abs(value);
    if (size >= 1e9 || (size > 0 && size < 1e-3)) return value.toExponential();
    if (size >= 1e6) return `${Number((value / 1e6).toPrecision(6))}M`;
    if (size >= 1e4) return `${Number((value / 1e3).toPrecision(6))}k`;
    return String(Number(value.toPrecision(6)));
  }

  /** Exponential moving average over the points that have a value, without bias at the start. */
  function smoothed(values, weight) {
    if (!weight) return values;
    let sum = 0;
    let norm = 0;
    return values.map((value) => {
      if (value == null) return value;
      sum = weight * sum + (1 - weight) * value;
      norm = weight * norm + (1 - weight);
      return sum / norm;
    });
  }

  const lastTime = Math.max(
    0,
    ...data.tasks.flatMap((task) =>
      [task.evaluations, task.episodes].flatMap((part) =>
        (part ? part.runs : []).map((run) => (data.arrays[run.seconds] || [0]).at(-1)),
      ),
    ),
  );
  const [unit, divisor] =
    lastTime > 7200 ? ["hours", 3600] : lastTime > 120 ? ["minutes", 60] : ["seconds", 1];

  function horizontal(curve) {
    if (view.axis === "frames") return data.arrays[curve.frames];
    const seconds = data.arrays[curve.seconds];
    return seconds && seconds.map((value) => value / divisor);
  }

  // Charts

  class Chart {
    /**
     * @param box   the element that it fills
     * @param part  {curves, runs}: lines with bands, and single runs
     * @param sync  charts of the same name share their cursor and zoom
     */
    constructor(box, part, sync, height) {
      const isMetric = !part.runs;
      Object.assign(this, { box, sync, height, visible: false, current: false, plot: null });
      const curves = part.curves.map((curve) => {
        const count = curve.runs === 1 ? "1 run" : `${curve.runs} runs`;
        const split = part.curves.filter((other) => other.group === curve.group).length > 1;
        const end = split ? ` to ${tick(data.arrays[curve.frames].at(-1))}` : "";
        const group = data.groups[curve.group];
        const label = isMetric && !split ? group : `${group} (${count}${end})`;
        return { curve, group: curve.group, nth: curve.line, key: "value", kind: "curve", label };
      });
      // The edges of bands come first, so that lines lie over all bands.
      const edges = curves
        .filter(({ curve }) => curve.low)
        .flatMap((line) => ["high", "low"].map((key) => ({ ...line, key, kind: "edge" })));
      const runs = (part.runs || []).map((run) => {
        const label = `${data.groups[run.group]}, ${data.runs[run.run]}`;
        const nth = part.runs.filter((other) => other.group === run.group).indexOf(run);
        return { curve: run, group: run.group, nth, key: "value", kind: "run", label };
      });
      this.lines = [...edges, ...curves, ...runs];
      this.visible = true; // until the watcher says otherwise: at first all are drawn
      charts.set(box, this);
      box.setAttribute("role", "img");
      watcher.observe(box);
      sizes.observe(box);
    }

    remove() {
      watcher.unobserve(this.box);
      sizes.unobserve(this.box);
      if (this.plot) this.plot.destroy();
      charts.delete(this.box);
    }

    shown(line) {
      return !view.hidden.has(line.group) && (line.kind !== "run" || view.runs);
    }

    /** Draw if it is on screen and not up to date. */
    update() {
      if (!this.visible || this.current) return;
      this.current = true;
      const zoom = this.plot && this.plot.axisName === view.axis && this.plot.zoom;
      if (this.plot) this.plot.destroy();
      this.box.style.minHeight = "0";
      this.plot = new uPlot(this.options(), this.values(), this.box);
      this.plot.axisName = view.axis;
      this.plot.zoom = zoom;
      if (zoom) this.plot.setScale("x", zoom);
      const [, ...rows] = this.box.querySelectorAll(".u-series");
      rows.forEach((row, index) => this.prepare(row.querySelector("th"), this.lines[index]));
    }

    /** Make a name of the legend a button: a run is hidden here, a group in all charts. */
    prepare(name, line) {
      name.tabIndex = 0;
      name.setAttribute("role", "button");
      name.onkeydown = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        name.click();
      };
      if (line.kind === "run") return; // uPlot does it
      const click = (event) => {
        event.stopImmediatePropagation();
        const others = data.groups.map((_, group) => group).filter((group) => group !== line.group);
        const isAlone = !view.hidden.has(line.group) && others.every((group) => view.hidden.has(group));
        if (event.ctrlKey || event.metaKey) view.hidden = new Set(isAlone ? [] : others);
        else if (!view.hidden.delete(line.group)) view.hidden.add(line.group);
        for (const chart of charts.values()) chart.showGroups();
      };
      name.addEventListener("click", click, true);
    }

    showGroups() {
      if (!this.plot || !this.current) return;
      this.lines.forEach((line, index) => {
        if (this.plot.series[index + 1].show !== this.shown(line)) {
          this.plot.setSeries(index + 1, { show: this.shown(line) });
        }
      });
    }

    values() {
      const tables = this.lines.map(({ curve, key, kind }) => {
        const x = horizontal(curve);
        return x && curve[key] && (kind !== "run" || view.runs) ? [x, smoothed(curve[key], view.smoothing)] : [[], []];
      });
      return uPlot.join(tables);
    }

    options() {
      const series = this.lines.map((line) => ({
        label: line.label,
        class: line.kind,
        show: this.shown(line),
        spanGaps: true,
        width: line.kind === "edge" ? 0 : line.kind === "run" || line.curve.runs === 1 ? 1.5 : 2,
        stroke: color(line.group, line.nth) + (line.kind === "run" ? "90" : ""),
        dash: line.kind === "curve" ? dash(line.group) : line.kind === "run" ? [3, 2] : [],
        points: line.kind === "curve" ? { size: 5, fill: css("--panel") } : { show: line.curve.value?.length === 1 },
        value: (plot, value, index, point) => this.text(plot, index, point),
      }));
      const bands = [];
      this.lines.forEach((line, index) => {
        if (line.kind === "edge" && line.key === "high") {
          bands.push({ series: [index + 1, index + 2], fill: `${color(line.group, line.nth)}33` });
        }
      });
      const lines = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 } };
      lines.ticks = lines.grid;
      lines.font = "12px system-ui, sans-serif";
      const texts = (plot, values) => values.map((value) => (value == null ? "" : tick(value)));
      return {
        width: this.box.clientWidth,
        height: this.height,
        padding: [8, 14, 0, 0],
        series: [
          {
            label: view.axis === "frames" ? "frames" : unit,
            value: (plot, value) => {
              const shown = value ?? plot.data[0].at(-1);
              return view.axis === "frames" ? shown?.toLocaleString("en") : digits(shown);
            },
          },
          ...series,
        ],
        bands,
        scales: { x: { time: false } },
        axes: [
          { ...lines, values: texts, space: 60, size: 28, gap: 4 },
          {
            ...lines,
            values: texts,
            gap: 4,
            size: (plot, values) => 16 + 7.5 * Math.max(2, ...(values || []).map((each) => each.length)),
          },
        ],
        cursor: {
          y: false,
          hover: { skip: [null, undefined] },
          sync: { key: this.sync, setSeries: false, scales: ["x", null] },
          points: { size: 7 },
        },
        legend: {
          markers: {
            width: 0,
            fill: (plot, index) => color(this.lines[index - 1].group, this.lines[index - 1].nth),
          },
        },
        hooks: { setSelect: [(plot) => this.zoomed(plot)] },
      };
    }

    /** The value under the cursor, or else the last one, with its interval. */
    text(plot, index, point) {
      point ??= plot.data[index].findLastIndex((value) => value != null);
      const value = digits(plot.data[index][point]);
      const line = this.lines[index - 1];
      if (line.kind !== "curve" || !line.curve.low) return value;
      const high = this.lines.findIndex(({ curve, key }) => curve === line.curve && key === "high");
      const [to, from] = [plot.data[high + 1][point], plot.data[high + 2][point]];
      return `${value} [${digits(from)}, ${digits(to)}]`;
    }

    zoomed(plot) {
      if (!plot.select.width) return;
      const { left, width } = plot.select;
      plot.zoom = { min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") };
    }
  }

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const chart = charts.get(target);
        if (!chart) continue;
        chart.visible = isIntersecting;
        chart.update();
      }
    },
    { rootMargin: "300px" },
  );
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = charts.get(target)?.plot;
      if (plot && target.clientWidth && plot.width !== target.clientWidth) {
        plot.setSize({ width: target.clientWidth, height: charts.get(target).height });
      }
    }
  });

  function draw() {
    for (const chart of charts.values()) chart.update();
  }

  function redraw() {
    for (const chart of charts.values()) chart.current = false;
    draw();
  }

  function figure(title, part, sync, height) {
    const caption = element("figcaption", { textContent: title });
    if (!part || !part.curves.length) {
      return element("figure", {}, caption, element("p", { className: "empty", textContent: "no rows" }));
    }
    const box = element("div", { className: "plot", ariaLabel: title });
    const made = element("figure", {}, caption, box);
    new Chart(box, part, sync, height);
    return made;
  }

  // The page

  function drawCurves() {
    const parent = document.getElementById("curve-charts");
    data.tasks.forEach((task, number) => {
      const grid = element("div", { className: "grid" });
      grid.append(figure("Return of evaluations", task.evaluations, `task${number}`, 300));
      grid.append(figure("Return of training episodes", task.episodes, `task${number}`, 300));
      parent.append(element("h3", { textContent: task.name }), grid);
    });
  }

  function drawMetrics() {
    const parent = document.getElementById("metric-charts");
    const select = element("select", { id: "metric-task" });
    data.tasks.forEach((task, number) => {
      select.append(element("option", { value: number, textContent: task.name }));
    });
    const panels = element("div", {});
    const show = () => {
      for (const box of panels.querySelectorAll(".plot")) charts.get(box).remove();
      panels.replaceChildren();
      const metrics = data.tasks[select.value].metrics;
      if (!metrics || !metrics.charts.length) panels.textContent = "This task has no metrics yet.";
      if (metrics && metrics.width) {
        const width = metrics.width.toLocaleString("en");
        const text = `Rows are means over ${width} frames; columns of extremes are extremes.`;
        panels.append(element("p", { className: "note", textContent: text }));
      }
      for (const first of [true, false]) {
        const grid = element("div", { className: "grid small" });
        const members = metrics ? metrics.charts.filter((chart) => chart.first === first) : [];
        if (!first && members.length) panels.append(element("h3", { textContent: "Other columns" }));
        grid.append(...members.map((chart) => figure(chart.name, chart, "metrics", 170)));
        panels.append(grid);
      }
      draw();
    };
    select.onchange = show;
    parent.append(element("label", {}, "task ", select), panels);
    show();
  }

  function setTheme(theme) {
    root.dataset.theme = theme;
    document.getElementById("theme").textContent = theme === "dark" ? "light" : "dark";
    for (const swatch of document.querySelectorAll(".swatch")) {
      swatch.style.background = color(Number(swatch.dataset.group));
    }
    redraw();
  }

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  prefersDark.onchange = () => setTheme(prefersDark.matches ? "dark" : "light");
  prefersDark.onchange();
  document.getElementById("theme").onclick = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  document.getElementById("axis").onchange = (event) => {
    view.axis = event.target.value;
    redraw();
  };
  document.getElementById("axis").disabled = !lastTime;
  document.getElementById("smoothing").oninput = (event) => {
    view.smoothing = Number(event.target.value);
    document.getElementById("smoothing-value").textContent = event.target.value;
    redraw();
  };
  document.getElementById("single-runs").onchange = (event) => {
    view.runs = event.target.checked;
    redraw();
  };
  controls.onsubmit = () => false;
  controls.reset();
  controls.hidden = false;
  drawCurves();
  drawMetrics();
  addEventListener("beforeprint", () => {
    for (const chart of charts.values()) chart.visible = true;
    draw();
  });
})();
