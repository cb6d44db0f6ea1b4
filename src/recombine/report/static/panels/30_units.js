// Single units: the tuning of a unit over the plane, and its means along each axis.
const SORTS = [
  ["number", null],
  ["variance", "variance"],
  ["stripe index", "stripe"],
  ["bump index", "bump"],
];

function buildUnits() {
  if (!DATA.groups.length || DATA.unrequested.includes("tuning")) return;
  const panel = card("Units");
  const controls = el("div", { class: "controls" });
  const map = makeMap("Tuning of the unit over the plane", { pick: true });
  map.canvas.id = "unit-map";
  const above = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
  const beside = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
  const title = el("p", { id: "unit-name", "data-text": true, "aria-live": "polite" });
  const bar = el("div", {}, colourBar("viridis", "–", "–"));
  const about = el("p", { class: "note", id: "unit-about", "data-text": true });
  const thumbs = el("div", { class: "thumbs", role: "group", "aria-label": "Units of this layer" });
  const note = el("p", { class: "note" });
  const view = el(
    "div",
    { class: "units" },
    el(
      "div",
      {},
      el(
        "div",
        { class: "tuning" },
        el("div", { class: "curve top-curve" }, above),
        el("div"),
        map.root,
        el("div", { class: "curve side-curve" }, beside),
      ),
      title,
      bar,
      about,
    ),
    el("div", {}, thumbs, note),
  );
  const missing = el("div");
  panel.body.append(controls, missing, view);
  byId("inside").append(panel.root);
  const order = { shown: [], values: null, units: null, maps: null };

  async function build() {
    const group = theGroup();
    const model = group.models[state.unitModel];
    const layer = model.layers[layerOf(model)];
    const step = (by) => {
      const place = order.shown.indexOf(state.unit);
      state.unit = order.shown[(place + by + order.shown.length) % order.shown.length];
      changed("unit");
    };
    refill(
      controls,
      choice(
        "Model",
        group.models.map((m) => m.name),
        state.unitModel,
        (i) => {
          state.unitModel = i;
          state.unit = -1;
          changed("layer");
        },
      ).root,
      choice(
        "Sorted by",
        SORTS.map(([name]) => name),
        state.sort,
        (i) => {
          state.sort = i;
          changed("layer");
        },
      ).root,
      el("button", { type: "button", "aria-label": "Previous unit", on: { click: () => step(-1) } }, "‹"),
      el("button", { type: "button", "aria-label": "Next unit", on: { click: () => step(1) } }, "›"),
    );
    const units = model.panels.tuning?.[layer];
    if (units) arrange(units, layer);
    let maps = null;
    let reason =
      model.missing.tuning || "the diagnosis has no units of this layer; diagnose the model again, or raise --units";
    try {
      maps = units ? await load(units.maps) : null;
    } catch (error) {
      reason = `The units cannot be shown: ${error.message}.`;
    }
    if (model !== theGroup().models[state.unitModel] || layer !== model.layers[layerOf(model)]) return; // the selection has changed
    view.hidden = !maps;
    missing.replaceChildren(...(maps ? [] : [gap(reason)]));
    if (!maps) return;
    order.maps = maps;
    drawThumbs();
    draw();
  }

  // The units and their order, which are known before their maps are decoded.
  function arrange(units, layer) {
    const key = SORTS[state.sort][1];
    order.units = units;
    order.maps = null;
    order.shown = units.unit
      .map((_, i) => i)
      .toSorted((a, b) => (key ? (units[key][b] ?? -1) - (units[key][a] ?? -1) : a - b));
    if (state.unit < 0 || state.unit >= units.unit.length) state.unit = order.shown[0];
    note.textContent =
      units.unit.length < units.of
        ? `${units.unit.length} of the ${units.of} units of ${layer}: the most typical ones and a seeded sample.`
        : `All ${units.of} units of ${layer}.`;
    if (!theGroup().ready) drawThumbs();
  }

  function drawThumbs() {
    const plane = slice(theGroup());
    const colours = colourMap("viridis");
    keepRatio(thumbs, plane.width, plane.height);
    map.frame(plane);
    refill(
      thumbs,
      ...order.shown.map((i) => {
        const canvas = el("canvas", { "aria-hidden": "true" });
        if (order.maps) {
          const size = order.maps.codes.length / order.maps.shape[0];
          const codes = order.maps.codes.subarray(i * size, (i + 1) * size);
          paint(canvas, plane.width, plane.height, (p) => shade(colours, codes[plane.cells[p]] / 254));
        }
        return el(
          "button",
          {
            type: "button",
            "data-unit": i,
            "aria-label": `unit ${order.units.unit[i]}`,
            "aria-pressed": String(i === state.unit),
            tabindex: i === state.unit ? 0 : -1,
            on: {
              click: () => {
                state.unit = i;
                changed("unit");
              },
            },
          },
          canvas,
        );
      }),
    );
  }

  function draw() {
    if (!order.maps || view.hidden) return;
    const group = theGroup();
    const plane = slice(group);
    order.values = order.maps.row(state.unit);
    const [low, high] = limits([order.values]);
    map.draw(
      Float64Array.from(plane.cells, (cell) => order.values[cell]),
      colourMap("viridis"),
      low,
      high,
    );
    drawMean(above, state.axes[0], plane.width, low, high, false);
    if (group.factors.length > 1) drawMean(beside, state.axes[1], plane.height, low, high, true);
    else beside.replaceChildren();
    bar.replaceChildren(colourBar("viridis", number(low, 2), number(high, 2)));
    for (const button of thumbs.children) {
      const chosen = Number(button.dataset.unit) === state.unit;
      fill(button, { "aria-pressed": String(chosen), tabindex: chosen ? 0 : -1 }, []);
    }
    const model = group.models[state.unitModel];
    about.textContent = `${model.name}, ${model.layers[layerOf(model)]}. ${axesText(group)}; curves: means over all other factors.`;
    name();
  }

  // A single tab stop. Arrow keys move between units.
  thumbs.addEventListener("keydown", (event) => {
    const here = [...thumbs.children].indexOf(event.target.closest("button"));
    const columns = getComputedStyle(thumbs).gridTemplateColumns.split(" ").length;
    const last = thumbs.children.length - 1;
    const moves = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      Home: -here,
      End: last - here,
    };
    if (moves[event.key] === undefined || here < 0) return;
    event.preventDefault();
    const next = thumbs.children[clamp(here + moves[event.key], 0, last)];
    state.unit = Number(next.dataset.unit);
    changed("unit");
    next.focus();
  });

  function name() {
    if (!order.values) return;
    map.frame();
    const u = order.units;
    const i = state.unit;
    title.textContent = `unit ${u.unit[i]}: ${number(order.values[cellOf(theGroup(), state.at)])} here · stripe ${number(u.stripe[i], 2)} · bump ${number(u.bump[i], 2)}`;
  }

  // The mean over all other factors, as a curve along one factor.
  function drawMean(node, axis, size, low, high, upward) {
    const group = theGroup();
    const step = strides(group)[axis];
    const sums = new Float64Array(size);
    const counts = new Float64Array(size);
    order.values.forEach((value, cell) => {
      if (Number.isNaN(value) || stateOf(group, cell) === "unavailable") return;
      const at = Math.floor(cell / step) % size;
      sums[at] += value;
      counts[at] += 1;
    });
    const share = (i) => ((sums[i] / counts[i] - low) / (high - low)) * 0.9 + 0.05;
    const points = Array.from(sums, (_, i) =>
      upward ? [share(i) * 100, 100 - ((i + 0.5) / size) * 100] : [((i + 0.5) / size) * 100, 100 - share(i) * 100],
    );
    node.setAttribute("viewBox", "0 0 100 100");
    node.replaceChildren(svg("path", { d: "M" + points.map((p) => p.map((v) => v.toFixed(2)).join(" ")).join("L") }));
    node.dataset.means = Array.from(sums, (sum, i) => (sum / counts[i]).toPrecision(6)).join(" ");
  }

  onChange((what) => {
    if (["all", "layer"].includes(what)) build();
    else if (what === "slice" && order.maps) {
      drawThumbs();
      draw();
    } else if (what === "unit") draw();
    else if (what === "cell") name();
  });
}

PANELS.push({ build: buildUnits });
