// The explorer: select a cell of the factor plane to see the truth, the output of each model, and what explains it.
const SIDES = (group) => [
  `outputs for mean codes: ${sumText(group)}`,
  "mean of the model's outputs for trained combinations that share a value",
];

// D(x, ȳ) + D(x̄, y) for the factors of a group, in words if their names are longer than one letter.
function sumText(group) {
  const names = group.factors.map((factor) => factor.name);
  if (names.some((name) => name.length > 1)) return "sum over factors of D(value, mean of the others)";
  const bar = (name) => `${name}\u0304`.normalize("NFC");
  return names.map((_, i) => `D(${names.map((name, j) => (i === j ? name : bar(name))).join(", ")})`).join(" + ");
}

function buildExplorer(main) {
  const section = el(
    "section",
    { id: "explorer" },
    el("h2", {}, "Explore the hold-out"),
    el(
      "p",
      { class: "intro" },
      "Each cell is one combination of factor values. Combinations inside the red line were never trained on, although " +
        "each of their values was." +
        (DATA.groups.some((group) => group.gone) ? " Hatched combinations do not exist." : "") +
        " Move over the plane, click, drag, or use the arrow keys.",
    ),
  );
  main.append(section);
  if (!DATA.groups.length) {
    section.append(
      gap(
        "There is no diagnosed model. Diagnose one with recombine diagnose RUN, or use recombine report RUN --diagnose.",
      ),
    );
    return;
  }
  const controls = el("div", { class: "controls" });
  const chips = el("div", { class: "chips", role: "group", "aria-label": "Models shown" });
  const plane = makeMap("Factor plane. Arrow keys move the selected combination.", { pick: true });
  plane.root.id = "plane";
  const sides = axes();
  const left = card("Landscape");
  const colourChoice = el("div", { class: "controls" });
  const bar = el("div", { class: "key" });
  const marksNote = el("p", { id: "marks-note", class: "note", "data-text": true });
  const sliders = el("div", { class: "body" });
  left.body.append(colourChoice, el("div", { class: "plane" }, sides.up, plane.root, sides.along), bar, marksNote, sliders);
  const right = card("Truth and models");
  const readout = el("div", { class: "readout" });
  const sideChoice = el("div", { class: "controls" });
  const grid = el("div", { class: "compare" });
  const verdicts = el("div", { class: "body", id: "verdicts" });
  const memories = memoriesPanel();
  right.body.append(
    readout,
    el("div", { class: "scroller" }, grid),
    sideChoice,
    verdicts,
  );
  section.append(
    controls,
    chips,
    el("div", { class: "explorer" }, left.root, el("div", { class: "beside" }, right.root, memories.root)),
    el("div", { class: "inside", id: "inside" }),
  );
  let cells = null;

  function buildControls() {
    const group = theGroup();
    const choices = [];
    if (DATA.groups.length > 1) {
      choices.push(
        choice(
          "Factor space",
          DATA.groups.map((g) => g.title),
          state.group,
          (i) => {
            chooseGroup(i);
            showGroup();
          },
        ).root,
      );
    }
    controls.hidden = DATA.groups.length < 2 && group.factors.length < 3;
    const names = group.factors.map((f) => f.name);
    if (names.length > 2) {
      ["Across", "Up"].forEach((label, i) =>
        choices.push(
          choice(label, names, state.axes[i], (axis) => {
            if (axis === state.axes[1 - i]) state.axes[1 - i] = state.axes[i];
            state.axes[i] = axis;
            changed("all");
          }).root,
        ),
      );
    }
    refill(controls, ...choices);
    refill(
      sliders,
      ...group.factors.map((factor, axis) => {
        if (names.length <= 2 || state.axes.includes(axis)) return "";
        const shown = el("output", {}, valueOf(factor, state.at[axis]));
        const input = el("input", {
          type: "range",
          min: 0,
          max: factor.size - 1,
          value: state.at[axis],
          "aria-label": factor.name,
          on: {
            input: () => {
              state.at = state.at.map((v, i) => (i === axis ? Number(input.value) : v));
              shown.textContent = valueOf(factor, state.at[axis]);
              changed("slice");
            },
          },
        });
        return el("label", { class: "field" }, factor.name, input, shown);
      }),
    );
    refill(
      colourChoice,
      choice(
        "Landscape of",
        group.models.map((m) => m.name),
        state.colour,
        (i) => {
          state.colour = i;
          changed("slice");
        },
      ).root,
      landscapeNames(group).length > 1
        ? choice("Coloured by", landscapeNames(group), state.metric, (i) => {
            state.metric = i;
            changed("metric");
          }).root
        : "",
    );
    refill(
      chips,
      ...(group.models.length < 2
        ? []
        : group.models.map((model, i) =>
            el(
              "button",
              {
                type: "button",
                title: model.name,
                "aria-pressed": String(!state.hidden.has(i)),
                on: {
                  click: (event) => {
                    if (!state.hidden.delete(i) && state.hidden.size < group.models.length - 1) state.hidden.add(i);
                    event.currentTarget.setAttribute("aria-pressed", String(!state.hidden.has(i)));
                    changed("models");
                  },
                },
              },
              el("span", {}, model.name),
            ),
          )),
    );
    refill(
      sideChoice,
      choice("Superposition", SIDES(group), state.side, (i) => {
        state.side = i;
        changed("cell");
      }).root,
    );
    sides.draw(group);
  }

  // Rows are output, difference and superposition. Columns are truth or legend, then the models.
  function buildGrid() {
    const group = theGroup();
    const shown = shownModels(group);
    grid.style.setProperty("--models", String(shown.length));
    const about = group.truth || shown.map((model) => model.output).find(Boolean);
    const picture = (label) => {
      const canvas = el("canvas");
      const root = el("div", { class: "field-map", role: "img", "aria-label": label }, canvas);
      if (about) keepRatio(root, ...sidesOf(about.shape));
      const caption = el("figcaption", {}, el("span", { "data-text": true }));
      return { canvas, root, text: caption.firstChild, figure: el("figure", {}, root, caption) };
    };
    cells = {
      truth: picture("truth"),
      models: shown.map((model) => ({
        model,
        output: picture(`output of ${model.name}`),
        difference: picture(`difference of ${model.name}`),
        sum: picture(`superposition for ${model.name}`),
      })),
    };
    cells.truth.canvas.id = "truth";
    const legend = (title, ...more) => el("div", { class: "lead" }, el("b", { "data-text": true }, title), more);
    grid.replaceChildren(
      el("div", { class: "head" }, el("b", { "data-text": true }, "truth")),
      ...shown.map(modelHead),
      cells.truth.figure,
      ...cells.models.map((c) => c.output.figure),
      legend(
        "output − truth",
        differenceKey(about),
      ),
      ...cells.models.map((c) => c.difference.figure),
      legend(
        "superposition",
        el("span", { "data-text": true }, "chosen below, at its best scale; it is made of the model's own outputs"),
      ),
      ...cells.models.map((c) => c.sum.figure),
    );
    verdicts.replaceChildren(
      ...shown.map(({ name, verdict }) =>
        el("p", { class: "note" }, el("b", {}, name), `: ${verdict.explanation}`),
      ),
      ...DATA.over_seeds.map(({ name, explanation }) =>
        el("p", { class: "note", "data-over-seeds": true }, el("b", {}, `${name}, over seeds`), `: ${explanation}`),
      ),
    );
    cells.models.forEach((c) => {
      c.output.canvas.dataset.model = c.model.name;
    });
  }

  function drawPlane() {
    const group = theGroup();
    const model = group.models[state.colour];
    const { cells: order } = slice(group);
    const name = metricsOf(group)[state.metric];
    const numbers = model.landscapes[name]?.numbers;
    bar.replaceChildren();
    if (!numbers) {
      plane.draw(
        Float64Array.from(order, () => NaN),
        colourMap("magma"),
        0,
        1,
      );
      const reason = lacking(model, "errors") || "no scores";
      bar.append(group.ready ? gap(reason) : colourBar("magma", "–", "–"), landscapeNote(model, name));
      return;
    }
    const { log, classes } = model.landscapes[name];
    if (classes) {
      const numbersHere = Float64Array.from(order, (cell) => numbers.at(cell));
      plane.draw(numbersHere, classMap(classes.length), 0, classes.length - 1, asPixel(DATA.colours.trained));
      bar.append(classKey(group, model, name), landscapeNote(model, name));
      return;
    }
    const bent = (value) => (log ? Math.log10(value) : value);
    const ranges = group.models.flatMap((m) => m.landscapes[name]?.numbers?.range.map(bent) ?? []);
    const low = Math.min(...ranges);
    const high = Math.max(low + (log ? 0.1 : 1e-9), ...ranges);
    const map = log ? "magma" : "viridis";
    const written = (value) => number(log ? 10 ** value : value, 2);
    plane.draw(
      Float64Array.from(order, (cell) => bent(numbers.at(cell))),
      colourMap(map),
      low,
      high,
    );
    bar.append(colourBar(map, written(low), written(high)), landscapeNote(model, name));
  }

  function drawCell() {
    const group = theGroup();
    const cell = cellOf(group, state.at);
    const kind = stateOf(group, cell);
    const held = kind === "ood";
    readout.replaceChildren(
      el("b", { id: "place", "data-text": true }, placeText(group, state.at)),
      el(
        "span",
        { class: `tag ${TAGS[kind]}`, "data-text": true },
        STATES[kind],
      ),
    );
    const here = hasImages(group, cell);
    const truth = here && group.loaded.truth && pictureOf(group.loaded.truth, cell);
    const gone = kind === "unavailable" ? "this combination does not exist" : here ? "" : NOT_DRAWN;
    const noTruth = group.truth ? group.loaded.failed.truth : "no truth was given";
    show(cells.truth, held, gone ? null : truth, gone || noTruth, (p, c) => paintPicture(c, p, group.scale));
    const said = [];
    const metric = metricsOf(group)[state.metric];
    for (const { model, output, difference, sum } of cells.models) {
      const mine = here && model.loaded.output && pictureOf(model.loaded.output, cell);
      const why = lacking(model, "outputs") || (here ? "" : NOT_DRAWN);
      show(output, held, mine, why, (p, c) => paintPicture(c, p, group.scale));
      show(difference, held, mine && !gone && truth, why || gone || "no truth", (_, c) => paintDifference(c, mine, truth, group.scale));
      const scored = [scoreText(model, metric, cell), memoriesOf(group, model, cell)?.words].filter(Boolean).join(" · ");
      output.text.textContent = scored;
      const both = mine && superpose(group, model, state.at, state.side);
      const match = both && compare(mine.values, both);
      const reason =
        state.side === 0
          ? model.panels.superposition?.missing || lacking(model, "input side") || model.missing.superposition || why
          : why || (group.loaded.drawn ? NOT_ALL : "no trained output shares a value");
      show(sum, held, match && { ...mine, values: both.map((v) => v * match.scale) }, reason, (p, c) =>
        paintPicture(c, p, group.scale),
      );
      sum.text.textContent = match ? `cosine ${number(match.cosine, 2)}` : "";
      said.push(
        `${model.name}: ${scored || "no score"}${match ? `, cosine with the superposition ${number(match.cosine, 2)}` : ""}`,
      );
    }
    const found = memories.draw(group, group.models[state.colour]);
    const marked = group.loaded.drawn ? withImages(group) : found;
    plane.mark(marked);
    marksNote.textContent = marksText(group, marked);
    say(`${placeText(group, state.at)}, ${STATES[kind]}. ${said.join(". ")}`);
  }

  onChange((what) => {
    if (what === "all") buildControls();
    if (["all", "models", "metric"].includes(what)) buildGrid();
    if (["all", "slice", "metric"].includes(what)) drawPlane();
    else if (what === "cell") plane.frame();
    if (["all", "models", "cell", "slice", "metric"].includes(what)) drawCell(); // after the plane, because it marks cells there
  });
}

// The meaning of the colours of a difference.
function differenceKey(about) {
  if (about?.shape.length === 3) return colourBar("difference", "−", "+");
  const text = about?.shape.length === 4 ? "each colour separately; grey where they agree" : "above or below 0";
  return el("span", { "data-text": true }, text);
}

const STATES = { id: "trained on", ood: "never trained on", unavailable: "unavailable" };
const TAGS = { id: "seen", ood: "held", unavailable: "gone" };
const landscapeNames = (group) =>
  metricsOf(group).map((name) => group.models.find((model) => model.landscapes[name]).landscapes[name].label);
// The score of a cell in words; empty for classes, which the caption already states.
function scoreText(model, metric, cell) {
  const entry = model.landscapes[metric];
  const score = entry?.numbers?.at(cell);
  if (score === undefined || Number.isNaN(score) || entry.classes) return "";
  return `${entry.short} ${number(score, 2)}`;
}

// The classes that occur in any model of the group, with their counts in this model.
function classKey(group, model, name) {
  const counted = (one) => {
    const counts = new Map();
    const numbers = one.landscapes[name]?.numbers;
    for (let i = 0; i < (numbers?.codes.length ?? 0); i++) {
      const value = numbers.at(i);
      if (!Number.isNaN(value)) counts.set(Math.round(value), (counts.get(Math.round(value)) ?? 0) + 1);
    }
    return counts;
  };
  const own = counted(model);
  const total = [...own.values()].reduce((sum, count) => sum + count, 0);
  const occurring = [...new Set(group.models.flatMap((one) => [...counted(one).keys()]))].toSorted((a, b) => a - b);
  return el(
    "div",
    { class: "legend", id: "class-key" },
    occurring.map((i) =>
      keyEntry(classColour(i), `${model.landscapes[name].classes[i]} ${number((100 * (own.get(i) ?? 0)) / total, 2)} %`),
    ),
    keyEntry(DATA.colours.trained, "trained on"),
  );
}

const keyEntry = (colour, text) =>
  el(
    "span",
    {},
    svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, fill: colour })),
    el("span", { "data-text": true }, text),
  );

function marksText(group, parts) {
  if (!parts.length) return "";
  if (group.loaded.drawn) return "Circles: combinations whose images are on this page, a random draw.";
  const away = group.factors.length > 2 ? "; dashed ones lie in other slices" : "";
  return `Circles: memories of the selected output, larger for larger weights${away}.`;
}

function landscapeNote(model, name) {
  const entry = model.landscapes[name];
  const text = entry ? `${model.name}: ${entry.label}${entry.log ? ", log scale" : ""}` : "";
  return el("p", { class: "note", "data-text": true }, text);
}

function modelHead(model) {
  const name = metricsOf(theGroup())[state.metric];
  const means = model.landscapes[name]?.means || {};
  const numbers = Object.entries(means)
    .filter(([, mean]) => mean !== null)
    .map(([split, mean]) => `${split.toUpperCase()} ${number(mean, 2)}`);
  return el(
    "div",
    { class: "head", title: model.name },
    el("b", { "data-text": true }, model.name),
    el("small", { title: model.verdict.explanation, "data-text": true }, model.verdict.kind),
    numbers.length ? el("small", { "data-text": true, "data-means": true }, numbers.join(" · ")) : null,
  );
}

const shownModels = (group) => group.models.filter((_, i) => !state.hidden.has(i));
const lacking = (model, part) => model.missing[part] || model.loaded.failed[part] || "";

// Draws into the canvas of a figure, or states why there is nothing to draw. Space is reserved until the arrays are loaded.
function show(place, held, content, reason, draw) {
  place.root.classList.toggle("held", held);
  if (content) {
    if (!place.canvas.isConnected) place.root.replaceChildren(place.canvas);
    draw(content, place.canvas);
    keepRatio(place.root, place.canvas.width, place.canvas.height);
  } else if (theGroup().ready) place.root.replaceChildren(gap(reason || "not available"));
}

const say = later((text) => {
  byId("live").textContent = text;
}, 350);

PANELS.push({ id: "explorer", name: "Explorer", build: buildExplorer });
