// Maps by layer from the parts of the diagnoses, such as volume element, factorization and errors of linear probes.
// Maps of the same kind for several factors share a row.
const MAP_COLOURS = ["viridis", "cividis", "magma"];

// Rows of maps. A row contains the maps of one title: one for each factor, or a single one.
function mapRows(group) {
  const rows = new Map();
  for (const model of group.models) {
    for (const entry of model.maps) {
      const { part, title, about, limits, least_steps: leastSteps } = entry;
      const key = `${part}: ${title}`;
      const map = MAP_COLOURS[rows.size % MAP_COLOURS.length];
      if (!rows.has(key)) rows.set(key, { part, title, about, limits, leastSteps, map, factors: new Set() });
      rows.get(key).factors.add(entry.factor);
    }
  }
  return [...rows.values()];
}

function buildLayers() {
  if (!DATA.groups.some((group) => mapRows(group).length)) return;
  const panel = card("Layer by layer");
  const slider = el("input", {
    type: "range",
    id: "layer",
    min: 0,
    "aria-label": "Layer",
    on: {
      input: () => {
        state.layer = Number(slider.value);
        state.unit = -1;
        changed("layer");
      },
    },
  });
  const shown = el("output", { for: "layer", id: "layer-name", "data-text": true });
  const grid = el("div", { class: "compare" });
  const extra = el("div", { class: "controls" });
  const axesNote = el("span", { class: "note", "data-text": true });
  panel.body.append(
    el("div", { class: "layer-slider" }, el("label", { for: "layer" }, "Layer"), slider, shown),
    el("div", { class: "scroller" }, grid),
    extra,
  );
  byId("inside").append(panel.root);
  let rows = [];
  let ownScale = 0;

  const shownFactor = (kind) => {
    const name = theGroup().factors[state.probe].name;
    return kind.factors.has(name) ? name : [...kind.factors][0];
  };
  const numbersOf = (model, kind) => {
    const factor = shownFactor(kind);
    return model.maps.find((m) => m.part === kind.part && m.title === kind.title && m.factor === factor)?.numbers;
  };
  const at = (numbers, layer, cells) => (i) => numbers.at(layer * cells + i);

  function build() {
    const group = theGroup();
    const models = shownModels(group);
    slider.max = depth(group) - 1;
    grid.style.setProperty("--models", String(models.length));
    rows = mapRows(group).map((kind) => ({
      kind,
      lead: el("div", { class: "lead" }),
      cells: models.map((model) => {
        const map = makeMap(`${kind.title} of ${model.name}`, { pick: true });
        map.canvas.dataset.map = kind.title;
        const text = el("span", { "data-text": true });
        const box = el("div", {}, map.root);
        return { model, map, text, box, figure: el("figure", {}, box, el("figcaption", {}, text)) };
      }),
    }));
    const names = models.map((model) =>
      el(
        "div",
        { class: "head" },
        el("b", { "data-text": true }, model.name),
        el("small", { "data-text": true, "data-layer": true }),
      ),
    );
    grid.replaceChildren(el("div"), ...names, ...rows.flatMap((row) => [row.lead, ...row.cells.map((c) => c.figure)]));
    refill(
      extra,
      choice("Colours", ["one scale for all layers", "one scale per layer"], ownScale, (i) => {
        ownScale = i;
        changed("layer");
      }).root,
      rows.some(({ kind }) => kind.factors.size > 1)
        ? choice(
            "Factor",
            group.factors.map((f) => f.name),
            state.probe,
            (i) => {
              state.probe = i;
              changed("layer");
            },
          ).root
        : "",
      axesNote,
    );
  }

  // The limits of a colour scale over all layers of all models shown, so that growth with depth is visible.
  function rangeOf(kind, models, plane, total) {
    if (kind.limits) return kind.limits;
    const found = models.flatMap((model) => {
      const numbers = numbersOf(model, kind);
      const layers = ownScale ? [layerOf(model)] : model.layers.keys();
      return numbers ? [...layers].map((layer) => Float64Array.from(plane.cells, at(numbers, layer, total))) : [];
    });
    if (!kind.leastSteps) return limits(found);
    return limits([...found, [0, kind.leastSteps * Math.abs(theGroup().factors[state.probe].step)]]); // smaller values are rounding errors
  }

  function draw() {
    const group = theGroup();
    const plane = slice(group);
    const total = group.factors.reduce((product, f) => product * f.size, 1);
    slider.value = String(state.layer);
    axesNote.textContent = axesText(group);
    const models = shownModels(group);
    const names = [...new Set(models.map((model) => model.layers[layerOf(model)]))];
    shown.textContent = names.length === 1 ? names[0] : `${state.layer} of ${depth(group) - 1}`;
    slider.setAttribute("aria-valuetext", names.join(", "));
    grid.querySelectorAll("[data-layer]").forEach((node, i) => {
      node.textContent = models[i].layers[layerOf(models[i])];
    });
    for (const { kind, lead, cells } of rows) {
      const values = cells.map(({ model }) => {
        const numbers = numbersOf(model, kind);
        return numbers ? Float64Array.from(plane.cells, at(numbers, layerOf(model), total)) : null;
      });
      const [low, high] = rangeOf(kind, models, plane, total);
      const of = shownFactor(kind) ? ` of ${shownFactor(kind)}` : "";
      lead.replaceChildren(
        el("b", { "data-text": true }, kind.title + of),
        el("span", { "data-text": true }, kind.about),
        colourBar(kind.map, number(low, 2), number(high, 2)),
      );
      cells.forEach(({ model, map, box, text }, i) => {
        if (!values[i] && !group.ready) {
          map.frame();
          return;
        }
        if (!values[i]) {
          box.replaceChildren(gap(lacking(model, kind.part) || "not in the diagnosis"));
          text.textContent = "";
          return;
        }
        map.draw(values[i], colourMap(kind.map), low, high);
      });
    }
    mark();
  }

  // The numbers of the selected cell.
  function mark() {
    const group = theGroup();
    const cell = cellOf(group, state.at);
    const total = group.factors.reduce((product, f) => product * f.size, 1);
    for (const { kind, cells } of rows) {
      for (const { model, map, text } of cells) {
        const numbers = numbersOf(model, kind);
        if (!numbers) continue;
        map.frame();
        text.textContent = number(at(numbers, layerOf(model), total)(cell));
      }
    }
  }

  onChange((what) => {
    if (what === "all" || what === "models") build();
    if (["all", "models", "layer", "slice"].includes(what)) draw();
    else if (what === "cell") mark();
  });
}

PANELS.push({ build: buildLayers });
