// Charts over layers, seeds and sizes, drawn by Observable Plot. The page contains the library and runs it on first use.
const SYMBOLS = ["circle", "square", "triangle", "diamond", "cross", "star", "wye", "times"];
const MANY = 10; // number of series from which the legend can hide some
const symbolOf = (i) => (i + Math.floor(i / 8)) % 8; // shifted in every round, so that pairs of colour and symbol repeat late
// Options shared by all charts.
const frame = (width, names) => ({
  width,
  height: clamp(Math.round(width * 0.62), 250, 400),
  style: { background: "transparent", color: "inherit", fontSize: "12px", overflow: "visible" },
  color: { domain: names, range: names.map((_, i) => colourOf(i)) },
  symbol: { domain: names, range: names.map((_, i) => SYMBOLS[symbolOf(i)]) },
});

const asItIs = { createScript: (text) => text };
const trusted = globalThis.trustedTypes?.createPolicy("recombine", asItIs) ?? asItIs;
let plotting = null;
function loadPlot() {
  plotting ??= bytesOf(DATA.vendor).then((bytes) => {
    const library = document.createElement("script");
    library.text = trusted.createScript(new TextDecoder().decode(bytes)); // the page's policy contains its hash
    document.head.append(library);
    return globalThis.Plot;
  });
  return plotting;
}

// Draws a chart when it comes into view and whenever its width changes.
function chartBox(draw) {
  const box = el("div", { class: "chart" });
  box.redraw = () => seen && redraw();
  let width = 0;
  let seen = false;
  const redraw = async () => {
    try {
      const Plot = await loadPlot();
      box.replaceChildren(draw(Plot, width));
    } catch (error) {
      box.replaceChildren(gap(`The chart cannot be drawn: ${error.message}.`));
    }
  };
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now && now !== width) {
      width = now;
      if (seen) redraw();
    }
  }).observe(box);
  new IntersectionObserver(
    (entries, watcher) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watcher.disconnect();
      seen = true;
      width ||= Math.round(box.clientWidth);
      redraw();
    },
    { rootMargin: "300px" },
  ).observe(box);
  globalThis.addEventListener("beforeprint", () => {
    if (!seen) {
      seen = true;
      width = box.clientWidth;
      redraw();
    }
  });
  return box;
}

// A legend of names, colours and symbols. If there are many, each entry toggles its series. `hidden` collects hidden names.
function legend(names, hidden, act) {
  const entry = (name, i) => [
    svg(
      "svg",
      { viewBox: "-7 -7 14 14", "aria-hidden": "true" },
      svg("path", { d: symbolPath(symbolOf(i)), fill: "none", stroke: colourOf(i), "stroke-width": 2 }),
    ),
    el("span", { "data-text": true }, name),
  ];
  const toggle = (name, i) => {
    const click = () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      act();
    };
    const button = el("button", { type: "button", "aria-pressed": "true", on: { click } }, entry(name, i));
    return button;
  };
  const many = names.length > MANY;
  return el(
    "div",
    { class: "legend", role: many ? "group" : null, "aria-label": many ? "Series shown" : null },
    names.map((name, i) => (many ? toggle(name, i) : el("span", {}, entry(name, i)))),
  );
}

function symbolPath(i) {
  return [
    "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0",
    "M-4 -4H4V4H-4Z",
    "M0 -5L5 4H-5Z",
    "M0 -5.5L4 0L0 5.5L-4 0Z",
    "M-5 0H5M0 -5V5",
    "M0 -5L1.5 -1.5L5 -1L2 1.5L3 5L0 3L-3 5L-2 1.5L-5 -1L-1.5 -1.5Z",
    "M0 0V5M0 0L-4 -3M0 0L4 -3",
    "M-4 -4L4 4M-4 4L4 -4",
  ][i];
}

function layerChart(chart) {
  const names = chart.series.map((s) => s.name);
  const points = chart.series.flatMap((s, i) => s.points.map((p) => ({ ...p, series: s.name, index: i })));
  const banded = points.filter((p) => p.low !== null);
  const seeds = [...new Set(points.map((p) => p.seeds))].toSorted((a, b) => a - b);
  const ticks = [...new Set(points.map((p) => p.depth))].toSorted((a, b) => a - b);
  const named = new Map(ticks.map((d) => [d, new Set(points.filter((p) => p.depth === d).map((p) => p.layer))]));
  const agree = ticks.every((d) => named.get(d).size === 1); // otherwise layers with different names share a position
  const name = (d) =>
    named.get(d)?.size === 1 && (agree || named.get(d).has("in")) ? shortLayer([...named.get(d)][0]) : d;
  const hidden = new Set();
  const [domain, cut] = domainOf(chart, points);
  const panel = card(chart.title);
  panel.root.dataset.quantity = chart.quantity;
  const shown = (given) => given.filter((p) => !hidden.has(p.series));
  const box = chartBox((Plot, width) =>
    Plot.plot({
      ...frame(width, names),
      marginLeft: 46,
      marginBottom: 36,
      ariaLabel: chart.title,
      x: { label: "layer", ticks, tickFormat: name, inset: 12 },
      y: { label: null, grid: true, domain, nice: true },
      clip: cut,
      marks: [
        banded.length
          ? Plot.areaY(shown(banded), { x: "depth", y1: "low", y2: "high", fill: "series", fillOpacity: 0.18 })
          : null,
        Plot.lineY(shown(points), { x: "depth", y: "mean", stroke: "series", strokeWidth: 1.8 }),
        Plot.dot(shown(points), {
          x: "depth",
          y: "mean",
          stroke: "series",
          symbol: "series",
          r: 3.5,
          title: (p) =>
            `${p.series}\n${p.layer}: ${number(p.mean)}${p.low === null ? "" : ` [${number(p.low)}, ${number(p.high)}]`}\n${p.seeds} ${p.seeds === 1 ? "seed" : "seeds"}`,
          tip: true,
        }),
      ],
    }),
  );
  panel.body.append(
    legend(names, hidden, box.redraw),
    box,
    el(
      "p",
      { class: "note" },
      seeds.length === 1 && seeds[0] === 1
        ? "One seed each, so there is no interval."
        : `Mean over seeds (${seeds.join(", ")}), band: 95 % bootstrap interval.`,
      cut ? ` Values below ${number(chart.cut_below)} are cut off.` : "",
    ),
  );
  return panel.root;
}

// The range of a chart, chosen such that rounding errors do not fill it and an R² far below 0 does not flatten the rest.
function domainOf(chart, points) {
  const [least, high] = limits([points.flatMap((p) => [p.mean, p.low ?? p.mean, p.high ?? p.mean])]);
  const cut = chart.cut_below !== null && least < chart.cut_below;
  const low = cut ? chart.cut_below : least;
  const short = Math.max(0, 0.1 - (high - low));
  const upward = chart.highest === null ? short / 2 : Math.min(short / 2, Math.max(0, chart.highest - high)); // scores end at 1
  return [[low - (short - upward), high + upward], cut];
}

const shortLayer = (layer) =>
  String(layer)
    .replace(/^layers\.(\d+)\.act$/, "$1")
    .slice(0, 10);

function scatterChart({ metrics, points: all }) {
  const names = [...new Set(all.map((p) => p.series))];
  const panel = card("ID against OOD scores, one point per run");
  panel.root.id = "scatter";
  const answer = el("p", { class: "note", role: "status" }, "Each point opens its run.");
  const hidden = new Set();
  let chosen = 0;
  const box = chartBox((Plot, width) => {
    const { name, label, log } = metrics[chosen];
    const shown = all
      .filter((p) => p.values[name] && !hidden.has(p.series))
      .map((p) => Object.assign({}, p, { id: p.values[name][0], ood: p.values[name][1] }));
    const [low, high] = limits(shown.map((p) => [p.id, p.ood]));
    const written = log && high / low >= 10 ? ".0e" : (v) => number(v); // within a decade, one digit does not distinguish ticks
    const axis = { type: log ? "log" : "linear", grid: true, tickFormat: written };
    const chart = Plot.plot({
      ...frame(width, names),
      marginLeft: 56,
      marginBottom: 40,
      ariaLabel: `ID against OOD, ${label}`,
      x: { ...axis, label: `ID ${label}`, ticks: width < 420 ? 3 : 5 },
      y: { ...axis, label: `OOD ${label}`, ticks: 5 },
      marks: [
        Plot.line(
          [
            [low, low],
            [high, high],
          ],
          { stroke: "currentColor", strokeOpacity: 0.35, strokeDasharray: "4 4" },
        ),
        Plot.dot(shown, {
          x: "id",
          y: "ood",
          stroke: "series",
          symbol: "series",
          r: 5,
          strokeWidth: 1.8,
          fill: "series",
          fillOpacity: 0.25,
        }),
        Plot.tip(
          shown,
          Plot.pointer({
            x: "id",
            y: "ood",
            title: (p) =>
              `${p.series}\nrun ${p.run ?? "unknown"}, seed ${p.seed ?? "–"}\nID ${number(p.id, 2)}, OOD ${number(p.ood, 2)}`,
          }),
        ),
      ],
    });
    linkDots(chart, shown, answer);
    return chart;
  });
  const pick = choice(
    "Score",
    metrics.map((metric) => metric.label),
    chosen,
    (i) => {
      chosen = i;
      box.redraw();
    },
  );
  panel.body.append(metrics.length > 1 ? pick.root : "", legend(names, hidden, box.redraw), box, answer);
  return panel.root;
}

// Every point opens its run, by click or keyboard.
function linkDots(chart, points, answer) {
  for (const dot of chart.querySelector('g[aria-label="dot"]').children) {
    const point = points[dot.__data__];
    const open = () => {
      if (!openRun(point.run))
        answer.textContent = point.run
          ? `Run ${point.run} is not on this page. Show it with: recombine runs show ${point.run}`
          : "This point does not belong to a run.";
    };
    fill(
      dot,
      {
        tabindex: 0,
        role: "link",
        "data-run": point.run,
        "aria-label": `${point.series}, run ${point.run}: ID ${number(point.id, 2)}, OOD ${number(point.ood, 2)}`,
        on: {
          click: open,
          keydown: (event) => {
            if (event.key !== "Enter") return;
            event.preventDefault(); // otherwise the key would also act on the heading of the run, which gets the focus
            open();
          },
        },
      },
      [],
    );
  }
}

function thresholdChart(points) {
  const names = [...new Set(points.map((p) => p.series))];
  const panel = card("Samples needed by N");
  panel.root.id = "threshold";
  const sizes = points.map((p) => p.n);
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  const middle = (name) => {
    const ours = points.filter((p) => p.series === name);
    return ours.map((p) => p.samples / p.n ** power(name)).toSorted((a, b) => a - b)[Math.floor(ours.length / 2)];
  };
  const power = (name) => points.find((p) => p.series === name).power;
  const references = names.flatMap((name) =>
    [low, high].map((n) => ({ series: name, n, samples: middle(name) * n ** power(name) })),
  );
  const hidden = new Set();
  const shown = (given) => given.filter((p) => !hidden.has(p.series));
  const box = chartBox((Plot, width) =>
    Plot.plot({
      ...frame(width, names),
      marginLeft: 52,
      marginBottom: 40,
      ariaLabel: "Threshold by N",
      x: {
        type: "log",
        label: "N",
        ticks: [...new Set(sizes)].toSorted((a, b) => a - b),
        tickFormat: "d",
        inset: 16,
      },
      y: { type: "log", label: "samples for 90 % OOD localization", grid: true, ticks: 5, tickFormat: "~s" },
      marks: [
        Plot.line(shown(references), {
          x: "n",
          y: "samples",
          z: "series",
          stroke: "series",
          strokeDasharray: "5 4",
          strokeOpacity: 0.7,
        }),
        Plot.dot(shown(points), {
          x: "n",
          y: "samples",
          stroke: "series",
          symbol: "series",
          r: 4.5,
          title: (p) =>
            `${p.series}\nN = ${p.n}: ${number(p.samples)}${p.seed === null || p.seed === undefined ? "" : `\nseed ${p.seed}`}`,
          tip: true,
        }),
      ],
    }),
  );
  panel.body.append(
    legend(names, hidden, box.redraw),
    box,
    el("p", { class: "note" }, "Dashed: growth as N³ (composite scenes alone) and as N (with all single-factor scenes), through the median point."),
  );
  return panel.root;
}

function buildCharts(main) {
  const { layers, scatter, thresholds, tables } = DATA.curves;
  if (!layers.length && !scatter.points && !thresholds.length && !tables.length) return;
  const section = el("section", { id: "curves" }, el("h2", {}, "By layer, run and size"));
  main.append(section);
  const charts = el(
    "div",
    { class: "charts" },
    layers.map(layerChart),
    scatter.points ? scatterChart(scatter) : null,
    thresholds.length ? thresholdChart(thresholds) : null,
  );
  section.append(charts);
  for (const table of tables) section.append(foldedTable(table));
}

PANELS.push({ id: "curves", name: "Curves", build: buildCharts });
