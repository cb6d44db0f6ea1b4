// The kernel view: the similarity of a model's outputs, ID cells first, next to the binary factorized kernel.
const SIMILARITIES = ["cosine", "l2", "overlap"];
const SIMILARITY_NAMES = ["cosine", "L2 distance", "pixel overlap"];

function buildKernel(main) {
  const group = theGroup();
  if (!group || DATA.left_out.includes("kernels")) return;
  const section = el(
    "section",
    { id: "kernel" },
    el("h2", {}, "Which pictures the network treats as similar"),
    el(
      "p",
      { class: "intro" },
      "The matrix compares every pair of outputs, with trained combinations (ID) before held-out ones (OOD). If a network " +
        "only memorizes, its output for a new combination resembles all training pictures that share a value, and the " +
        "OOD × ID block looks like the kernel next to it.",
    ),
  );
  main.append(section);
  const panel = card("Gram matrices");
  const controls = el("div", { class: "controls" });
  const measured = matrixView("kernel-gram", "Similarity of outputs. Arrow keys move the selected pair.");
  const binary = matrixView("kernel-binary", "Binary factorized kernel. Arrow keys move the selected pair.");
  const first = el("canvas", { id: "pair-a" });
  const second = el("canvas", { id: "pair-b" });
  const captions = [el("figcaption", { "data-text": true }), el("figcaption", { "data-text": true })];
  const verdict = el("p", { class: "wide", id: "pair-value", "data-text": true, "aria-live": "polite" });
  const agreement = el("p", { class: "wide note" });
  const bar = el("div", {}, colourBar("viridis", "–", "–"));
  measured.figure.append(bar);
  const key = el("div", { class: "legend", id: "kernel-key" });
  binary.figure.append(key);
  const body = el(
    "div",
    { class: "kernels" },
    measured.figure,
    binary.figure,
    el(
      "div",
      { class: "pair" },
      verdict,
      ...[first, second].map((canvas, i) =>
        el(
          "figure",
          {},
          el(
            "div",
            {
              class: "field-map",
              role: "img",
              "aria-label": i ? "output of the column's combination" : "output of the row's combination",
            },
            canvas,
          ),
          captions[i],
        ),
      ),
      agreement,
    ),
  );
  const missing = el("div");
  const note = el("p", { class: "note" });
  panel.body.append(controls, missing, body, note);
  section.append(panel.root);
  let current = null;
  let near = false; // the matrix has half a million pairs, so it is drawn only when it comes into view

  function buildControls() {
    const group = theGroup();
    refill(
      controls,
      choice(
        "Model",
        group.models.map((m) => m.name),
        state.kernelModel,
        (i) => {
          state.kernelModel = i;
          changed("kernel");
        },
      ).root,
      choice("Similarity", SIMILARITY_NAMES, state.similarity, (i) => {
        state.similarity = i;
        changed("kernel");
      }).root,
    );
    const shape = group.models.map((m) => m.output).find(Boolean)?.shape;
    for (const canvas of [first, second]) if (shape) keepRatio(canvas.parentElement, ...sidesOf(shape));
  }

  async function build() {
    buildControls();
    if (!near) return;
    const group = theGroup();
    const model = group.models[state.kernelModel];
    const name = SIMILARITIES[state.similarity];
    const kernel = model.panels.kernels ?? {};
    let numbers = null;
    let reason = model.missing.kernels || `the diagnosis has no ${name} matrix`;
    try {
      numbers = kernel.grams && kernel.grams[name] ? await load(kernel.grams[name]) : null;
    } catch (error) {
      reason = `The matrix cannot be shown: ${error.message}.`;
    }
    if (model !== theGroup().models[state.kernelModel]) return;
    body.hidden = !numbers;
    missing.replaceChildren(...(numbers ? [] : [gap(reason)]));
    note.textContent = "";
    current = null;
    if (!numbers) return;
    const n = kernel.cells.length;
    if (numbers.codes.length !== (n * (n + 1)) / 2) {
      body.hidden = true;
      missing.replaceChildren(gap("The matrix cannot be shown: its data is damaged."));
      return;
    }
    const places = kernel.cells.map((cell) => positions(group, cell));
    current = { model, kernel, numbers, n, places, name };
    state.entry ??= [kernel.n_id + Math.floor((n - kernel.n_id) / 2), Math.floor(kernel.n_id / 2)];
    state.entry = state.entry.map((v) => clamp(v, 0, n - 1));
    const [low, high] = numbers.range;
    const map = colourMap("viridis");
    const span = high - low || 1;
    const colour = (code) => {
      const s = (numbers.table[code] - low) / span;
      return shade(map, name === "l2" ? 1 - s : s);
    };
    const shades = Uint32Array.from({ length: 256 }, (_, code) => colour(code));
    measured.draw(n, kernel.n_id, (i) => shades[numbers.codes[entry(n, Math.floor(i / n), i % n)]]);
    const ink = [map[20], map[map.length - 20]];
    binary.draw(n, kernel.n_id, (i) => ink[Number(shares(places, Math.floor(i / n), i % n))]);
    measured.title.textContent = `${SIMILARITY_NAMES[state.similarity]}, ${model.name}`;
    binary.title.textContent = "K_bin";
    key.replaceChildren(...["shares none", "shares a value"].map((text, i) => swatch(ink[i], text)));
    bar.replaceChildren(
      name === "l2"
        ? colourBar("viridis", number(high, 2), number(low, 2))
        : colourBar("viridis", number(low, 2), number(high, 2)),
    );
    const found = kernel.agreement[name];
    agreement.textContent =
      found && found.correlation !== null
        ? `OOD × ID agreement with K_bin: r = ${number(found.correlation, 2)} [${number(found.low, 2)}, ${number(found.high, 2)}], p = ${number(found.p_value, 2)}`
        : "";
    note.textContent = n < kernel.of ? `${n} of ${kernel.of} cells are shown.` : "";
    drawPair();
  }

  const entry = (n, row, column) =>
    row <= column
      ? row * n - (row * (row - 1)) / 2 + column - row
      : column * n - (column * (column - 1)) / 2 + row - column;
  const shares = (places, a, b) => places[a].some((v, i) => v === places[b][i]);

  function drawPair() {
    if (!current) return;
    const group = theGroup();
    const { model, kernel, numbers, n, places } = current;
    const [row, column] = state.entry;
    measured.mark(row, column);
    binary.mark(row, column);
    [
      [row, first],
      [column, second],
    ].forEach(([index, canvas], i) => {
      const held = index >= kernel.n_id;
      captions[i].textContent = `${placeText(group, places[index])} (${held ? "OOD" : "ID"})`;
      canvas.parentElement.classList.toggle("held", held);
      if (model.loaded.output && hasImages(group, kernel.cells[index])) {
        paintPicture(canvas, pictureOf(model.loaded.output, kernel.cells[index]), group.scale);
        keepRatio(canvas.parentElement, canvas.width, canvas.height);
      }
    });
    verdict.textContent = `${SIMILARITY_NAMES[state.similarity]} ${number(numbers.at(entry(n, row, column)))} · ${shares(places, row, column) ? "they share a factor value" : "they share no factor value"}`;
  }

  for (const view of [measured, binary])
    view.onPick((row, column) => {
      state.entry = [row, column];
      changed("pair");
    });
  onChange((what) => {
    if (what === "kernel" || what === "all") build();
    else if (what === "pair") drawPair();
  });
  const come = () => {
    near = true;
    loadGroup(theGroup()).then(build);
  };
  new IntersectionObserver(
    (entries, watcher) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watcher.disconnect();
      come();
    },
    { rootMargin: "200px" },
  ).observe(section);
  addEventListener("beforeprint", come);
}

// A colour of a map together with its meaning.
function swatch(colour, text) {
  const [red, green, blue] = [0, 8, 16].map((shift) => (colour >> shift) & 255);
  const square = svg("rect", { x: 1, y: 1, width: 12, height: 12, fill: `rgb(${red}, ${green}, ${blue})` });
  return el(
    "span",
    {},
    svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, square),
    el("span", { "data-text": true }, text),
  );
}

// A square matrix with outlined blocks. An entry is selected by pointer or arrow keys.
function matrixView(id, label) {
  const canvas = el("canvas", { id, "aria-hidden": "true" });
  const kinds = ["blocks-under", "blocks-under", "blocks", "blocks", "cross", "cross"];
  const lines = kinds.map((kind) => svg("line", { class: kind }));
  const overlay = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, lines);
  const box = el(
    "div",
    { class: "field-map pickable", role: "application", "aria-label": label, tabindex: 0 },
    canvas,
    overlay,
  );
  const title = el("figcaption", { "data-text": true });
  const [above, beside] = ["columns", "rows"].map((side) =>
    el(
      "div",
      { class: `block-labels ${side}` },
      el("span", { "data-text": true }, "ID"),
      el("span", { "data-text": true }, "OOD"),
    ),
  );
  let size = 1;
  let at = [0, 0];
  let act = () => {};
  const pick = ([row, column]) => {
    const to = [clamp(row, 0, size - 1), clamp(column, 0, size - 1)];
    if (to[0] !== at[0] || to[1] !== at[1]) act(...to);
  };
  const here = (event) => {
    const r = box.getBoundingClientRect();
    return [(event.clientY - r.top) / r.height, (event.clientX - r.left) / r.width].map((v) => Math.floor(v * size));
  };
  const keep = followPointer(box, here, () => at, pick);
  box.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [0, -step], ArrowRight: [0, step], ArrowUp: [-step, 0], ArrowDown: [step, 0] };
    if (!moves[event.key]) return;
    event.preventDefault();
    pick([at[0] + moves[event.key][0], at[1] + moves[event.key][1]]);
    keep();
  });
  const line = (node, x1, y1, x2, y2) => fill(node, { x1, y1, x2, y2 }, []);
  return {
    title,
    figure: el("figure", {}, title, el("div", { class: "matrix" }, el("span"), above, beside, box)),
    onPick: (given) => {
      act = given;
    },
    draw(n, nId, colourAt) {
      size = n;
      paint(canvas, n, n, colourAt, false);
      overlay.setAttribute("viewBox", `0 0 ${n} ${n}`);
      for (const i of [0, 2]) {
        line(lines[i], 0, nId, n, nId);
        line(lines[i + 1], nId, 0, nId, n);
      }
      const share = (100 * nId) / n;
      above.style.gridTemplateColumns = `minmax(0, ${share}fr) minmax(0, ${Math.max(100 - share, 0.001)}fr)`;
      beside.lastChild.style.top = `min(${share}%, 100% - 1.1rem)`;
    },
    mark(row, column) {
      at = [row, column];
      line(lines[4], 0, row + 0.5, size, row + 0.5);
      line(lines[5], column + 0.5, 0, column + 0.5, size);
    },
  };
}

PANELS.push({ id: "kernel", name: "Kernel", build: buildKernel });
