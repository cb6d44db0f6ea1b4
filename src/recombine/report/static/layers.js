// Layer by layer: how each model stretches the plane, keeps the factors apart, and where linear probes fail.
function buildLayers() {
  if (!DATA.groups.length) return;
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

  const KINDS = [
    {
      key: "volume",
      part: "geometry",
      title: "log₁₀ dv",
      about: "how much a step in the plane is stretched",
      map: "viridis",
      at: (a, layer, cells) => (i) => a.at(layer * cells + i),
    },
    {
      key: "factorization",
      part: "geometry",
      title: "factorization",
      about: "1: the factors move the activation in orthogonal directions",
      map: "cividis",
      at: (a, layer, cells) => (i) => a.at(layer * cells + i),
    },
    {
      key: "probe",
      part: "probes",
      title: "probe error",
      about: "",
      map: "magma",
      at: (a, layer, cells) => (i) => a.at((layer * a.shape[1] + state.probe) * cells + i),
    },
  ];

  function build() {
    const group = theGroup();
    const models = shownModels(group);
    slider.max = depth(group) - 1;
    grid.style.setProperty("--models", String(models.length));
    rows = KINDS.map((kind) => ({
      kind,
      lead: el("div", { class: "lead" }),
      cells: models.map((model) => {
        const map = makeMap(`${kind.title} of ${model.name}`, { pick: true });
        map.canvas.dataset.map = kind.key;
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
      choice("Colours", ["one scale for all layers", "a scale per layer"], ownScale, (i) => {
        ownScale = i;
        changed("layer");
      }).root,
      group.factors.length > 1
        ? choice(
            "Probe of",
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

  // The ends of a map's colours: over all layers of all models shown, so that growth with depth can be seen.
  function rangeOf(kind, models, plane, total) {
    if (kind.key === "factorization") return [0.5, 1];
    const found = models.flatMap((model) => {
      const numbers = model.loaded[kind.key];
      const layers = ownScale ? [layerOf(model)] : model.layers.keys();
      return numbers ? [...layers].map((layer) => Float64Array.from(plane.cells, kind.at(numbers, layer, total))) : [];
    });
    if (kind.key !== "probe") return limits(found);
    const least = 0.05 * Math.abs(theGroup().factors[state.probe].step); // less is nothing, however it rounds
    return limits([...found, [0, least]]);
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
        const numbers = model.loaded[kind.key];
        return numbers ? Float64Array.from(plane.cells, kind.at(numbers, layerOf(model), total)) : null;
      });
      const [low, high] = rangeOf(kind, models, plane, total);
      const about =
        kind.key === "probe"
          ? `how far a linear read-out of ${group.factors[state.probe].name} is off where its fit saw nothing`
          : kind.about;
      lead.replaceChildren(
        el("b", { "data-text": true }, kind.title),
        el("span", { "data-text": true }, about),
        colourBar(kind.map, number(low, 2), number(high, 2)),
      );
      cells.forEach(({ model, map, box, text }, i) => {
        if (!values[i] && !group.ready) {
          map.frame();
          return;
        }
        if (!values[i]) {
          box.replaceChildren(gap(lacking(model, kind.part) || "not in its diagnosis"));
          text.textContent = "";
          return;
        }
        map.draw(values[i], colourMap(kind.map), low, high);
      });
    }
    mark();
  }

  // The picked cell's numbers.
  function mark() {
    const group = theGroup();
    const cell = cellOf(group, state.at);
    const total = group.factors.reduce((product, f) => product * f.size, 1);
    for (const { kind, cells } of rows) {
      for (const { model, map, text } of cells) {
        if (!model.loaded[kind.key]) continue;
        map.frame();
        text.textContent = number(kind.at(model.loaded[kind.key], layerOf(model), total)(cell));
      }
    }
  }

  onChange((what) => {
    if (what === "all" || what === "models") build();
    if (["all", "models", "layer", "slice"].includes(what)) draw();
    else if (what === "cell") mark();
  });
}
