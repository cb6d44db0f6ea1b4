// The explorer: pick a cell of the factor plane and see the truth, what each model makes of it, and why.
const SIDES = (group) => [`${sumText(group)}: mean codes`, "mean of trained outputs that share a value"];

// D(x, ȳ) + D(x̄, y) for these factors; in words where their names are longer than a letter.
function sumText(group) {
  const names = group.factors.map((factor) => factor.name);
  if (names.some((name) => name.length > 1)) return "sum over factors of D(its value, the others' mean)";
  const bar = (name) => `${name}\u0304`.normalize("NFC");
  return names.map((_, i) => `D(${names.map((name, j) => (i === j ? name : bar(name))).join(", ")})`).join(" + ");
}

function buildExplorer(main) {
  const section = el(
    "section",
    { id: "explorer" },
    el("h2", {}, "Walk through the hold-out"),
    el(
      "p",
      { class: "intro" },
      "Each cell is one combination of factor values. Those inside the red line were never trained on, though each " +
        "of their values was. Move over the plane, click, drag, or use the arrow keys.",
    ),
  );
  main.append(section);
  if (!DATA.groups.length) {
    section.append(
      gap(
        "No diagnosed model was given. recombine diagnose RUN makes a diagnosis; recombine report RUN --diagnose does both.",
      ),
    );
    return;
  }
  const controls = el("div", { class: "controls" });
  const chips = el("div", { class: "chips", role: "group", "aria-label": "Models shown" });
  const plane = makeMap("Factor plane. Arrow keys move the picked combination.", { pick: true });
  plane.root.id = "plane";
  const sides = axes();
  const left = card("Error landscape");
  const colourChoice = el("div", { class: "controls" });
  const bar = el("div");
  const sliders = el("div", { class: "body" });
  left.body.append(colourChoice, el("div", { class: "plane" }, sides.up, plane.root, sides.along), bar, sliders);
  const right = card("Truth and models");
  const readout = el("div", { class: "readout" });
  const sideChoice = el("div", { class: "controls" });
  const grid = el("div", { class: "compare" });
  const verdicts = el("div");
  right.body.append(
    readout,
    el("div", { class: "scroller" }, grid),
    sideChoice,
    el("details", {}, el("summary", {}, "What the diagnoses say"), verdicts),
  );
  section.append(
    controls,
    chips,
    el("div", { class: "explorer" }, left.root, right.root),
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
        "Error of",
        group.models.map((m) => m.name),
        state.colour,
        (i) => {
          state.colour = i;
          changed("slice");
        },
      ).root,
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

  // Rows: output, difference, superposition; columns: truth or legend, then the models.
  function buildGrid() {
    const group = theGroup();
    const shown = shownModels(group);
    grid.style.setProperty("--models", String(shown.length));
    const about = group.truth || shown.map((model) => model.output).find(Boolean);
    const picture = (label) => {
      const canvas = el("canvas");
      const root = el("div", { class: "field-map", role: "img", "aria-label": label }, canvas);
      if (about) keepRatio(root, about.shape[2], about.shape[1]);
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
      legend("output − truth", colourBar("difference", "−", "+")),
      ...cells.models.map((c) => c.difference.figure),
      legend(
        "superposition",
        el("span", { "data-text": true }, "what adding up remembered pictures would give, at its best scale"),
      ),
      ...cells.models.map((c) => c.sum.figure),
    );
    verdicts.replaceChildren(
      ...shown.map(({ name, verdict }) =>
        el("p", { class: "note" }, el("b", {}, name), `: ${verdict.kind}. ${verdict.explanation}`),
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
    const mse = model.loaded.mse;
    bar.replaceChildren();
    if (!mse) {
      plane.draw(
        Float64Array.from(order, () => NaN),
        colourMap("magma"),
        0,
        1,
      );
      bar.append(group.ready ? gap(lacking(model, "errors")) : colourBar("magma", "–", "–"), landscapeNote(model));
      return;
    }
    const logs = group.models.filter((m) => m.loaded.mse).map((m) => m.loaded.mse.range.map(Math.log10));
    const low = Math.min(...logs.map((r) => r[0]));
    const high = Math.max(low + 0.1, ...logs.map((r) => r[1]));
    plane.draw(
      Float64Array.from(order, (cell) => Math.log10(mse.at(cell))),
      colourMap("magma"),
      low,
      high,
    );
    bar.append(colourBar("magma", number(10 ** low, 2), number(10 ** high, 2)), landscapeNote(model));
  }

  function drawCell() {
    const group = theGroup();
    const cell = cellOf(group, state.at);
    const held = group.loaded.held ? group.loaded.held.at(cell) > 0.5 : false;
    readout.replaceChildren(
      el("b", { id: "place", "data-text": true }, placeText(group, state.at)),
      el(
        "span",
        { class: `tag ${held ? "held" : "seen"}`, "data-text": true },
        held ? "never trained on" : "trained on",
      ),
    );
    const truth = group.loaded.truth && pictureOf(group.loaded.truth, cell);
    show(cells.truth, held, truth, group.truth ? group.loaded.failed.truth : "no truth was given", (p, c) =>
      paintPicture(c, p, group.scale),
    );
    const said = [];
    for (const { model, output, difference, sum } of cells.models) {
      const mine = model.loaded.output && pictureOf(model.loaded.output, cell);
      const why = lacking(model, "outputs");
      show(output, held, mine, why, (p, c) => paintPicture(c, p, group.scale));
      show(difference, held, mine && truth, why || "no truth", (_, c) => paintDifference(c, mine, truth, group.scale));
      const mse = model.loaded.mse && model.loaded.mse.at(cell);
      output.text.textContent = mse ? `error ${number(mse, 2)}` : "";
      const both = mine && superpose(group, model, state.at, state.side);
      const match = both && compare(mine.values, both);
      const reason =
        state.side === 0
          ? model.missing["input side"] || model.missing.superposition || why
          : why || "no trained output shares a value";
      show(sum, held, match && { ...mine, values: both.map((v) => v * match.scale) }, reason, (p, c) =>
        paintPicture(c, p, group.scale),
      );
      sum.text.textContent = match ? `cosine ${number(match.cosine, 2)}` : "";
      said.push(
        `${model.name}: ${mse ? `error ${number(mse, 2)}` : "no error"}${match ? `, cosine with the superposition ${number(match.cosine, 2)}` : ""}`,
      );
    }
    say(`${placeText(group, state.at)}, ${held ? "never trained on" : "trained on"}. ${said.join(". ")}`);
  }

  onChange((what) => {
    if (what === "all") buildControls();
    if (what === "all" || what === "models") buildGrid();
    if (what === "all" || what === "slice") drawPlane();
    else if (what === "cell") plane.frame();
    if (["all", "models", "cell", "slice"].includes(what)) drawCell();
  });
}

const landscapeNote = (model) =>
  el("p", { class: "note", "data-text": true }, `mean squared error of ${model.name}, log scale`);

function modelHead(model) {
  const errors = model.errors || {};
  const numbers = ["id", "ood"]
    .filter((key) => errors[key] !== undefined)
    .map((key) => `${key.toUpperCase()} ${number(errors[key], 2)}`);
  return el(
    "div",
    { class: "head", title: model.name },
    el("b", { "data-text": true }, model.name),
    el("small", { title: model.verdict.explanation, "data-text": true }, model.verdict.kind),
    numbers.length ? el("small", { "data-text": true }, numbers.join(" · ")) : null,
  );
}

const shownModels = (group) => group.models.filter((_, i) => !state.hidden.has(i));
const lacking = (model, part) => model.missing[part] || model.loaded.failed[part] || "";

// Draw into a figure's canvas, or say why there is nothing to draw. Before the arrays are there its place is kept.
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
