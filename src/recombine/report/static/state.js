// The selection. It is stored in the URL fragment, so that a link opens the same cell and layer.
const state = {
  group: 0,
  at: [],
  axes: [0, 1],
  layer: 0,
  hidden: new Set(),
  colour: 0,
  metric: 0,
  side: 0,
  unitModel: 0,
  unit: -1,
  sort: 1,
  probe: 0,
  kernelModel: 0,
  similarity: 0,
  entry: null,
  run: "",
};
const listeners = [];

// `act(what)` is called after changes. `what` is one of cell, slice, metric, layer, models, unit, kernel, pair or all.
const onChange = (act) => listeners.push(act);

function changed(what) {
  for (const act of listeners) act(what);
  writeLink();
}

const writeLink = later(() => {
  try {
    history.replaceState(null, "", linkText());
  } catch {
    // a frame in a notebook has no address to write to
  }
}, 120);

function linkText() {
  const words = {
    g: state.group,
    at: state.at.join("."),
    axes: state.axes.join("."),
    layer: state.layer,
    colour: state.colour,
    metric: state.metric,
    side: state.side,
    um: state.unitModel,
    unit: state.unit,
    sort: state.sort,
    probe: state.probe,
    km: state.kernelModel,
    sim: state.similarity,
  };
  if (state.entry) words.pair = state.entry.join(".");
  if (state.hidden.size) words.off = [...state.hidden].join(".");
  if (state.run) words.run = state.run;
  return "#" + new URLSearchParams(words).toString();
}

// Reads a fragment. Invalid entries are ignored or clipped to their bounds.
function readLink(text) {
  const words = new URLSearchParams(text.replace(/^#/, ""));
  const whole = (key, high, low = 0) => {
    const value = words.has(key) ? Number(words.get(key)) : NaN;
    return Number.isInteger(value) && value >= low && value <= high ? value : null;
  };
  const list = (key) => (words.get(key) || "").split(".").map(Number);
  if (!words.has("g") || !DATA.groups.length) {
    if (words.has("run")) state.run = words.get("run");
    return false;
  }
  chooseGroup(whole("g", DATA.groups.length - 1) ?? 0);
  const group = theGroup();
  const at = list("at");
  if (
    at.length === group.factors.length &&
    at.every((v, i) => Number.isInteger(v) && v >= 0 && v < group.factors[i].size)
  ) {
    state.at = at;
  }
  const axes = list("axes");
  const last = group.factors.length - 1;
  if (axes.length === 2 && axes.every((a) => Number.isInteger(a) && a >= 0 && a <= last) && axes[0] !== axes[1])
    state.axes = axes;
  const models = group.models.length - 1;
  state.layer = whole("layer", depth(group) - 1) ?? state.layer;
  state.colour = whole("colour", models) ?? state.colour;
  state.unitModel = whole("um", models) ?? state.unitModel;
  state.kernelModel = whole("km", models) ?? state.kernelModel;
  state.metric = whole("metric", metricsOf(group).length - 1) ?? state.metric;
  state.side = whole("side", 1) ?? state.side;
  state.unit = whole("unit", Number.MAX_SAFE_INTEGER, -1) ?? state.unit;
  state.sort = whole("sort", 3) ?? state.sort;
  state.probe = whole("probe", last) ?? state.probe;
  state.similarity = whole("sim", 2) ?? state.similarity;
  const pair = list("pair");
  if (pair.length === 2 && pair.every((v) => Number.isInteger(v) && v >= 0)) state.entry = pair;
  state.hidden = new Set(
    words.has("off") ? list("off").filter((i) => Number.isInteger(i) && i >= 0 && i <= models) : [],
  );
  if (state.hidden.size > models) state.hidden.clear();
  if (words.has("run")) state.run = words.get("run");
  return true;
}

const theGroup = () => DATA.groups[state.group];
// The names of all landscapes of the models in the group.
const metricsOf = (group) => [...new Set(group.models.flatMap((model) => Object.keys(model.landscapes)))];
const depth = (group) => Math.max(1, ...group.models.map((model) => model.layers.length));

// Initial selection of a group: the middle of the hold-out and the last hidden layer.
function chooseGroup(index) {
  const group = DATA.groups[index];
  state.group = index;
  state.at = startCell(group);
  state.axes = [0, 1];
  state.layer = Math.max(0, depth(group) - 2);
  state.hidden = new Set();
  const inputSide = group.models.some((model) => model.panels.superposition?.alone);
  Object.assign(state, {
    colour: 0,
    metric: 0,
    side: inputSide ? 0 : 1,
    unitModel: 0,
    unit: -1,
    probe: 0,
    kernelModel: 0,
    entry: null,
  });
}

function startCell(group) {
  return group.start.slice();
}

// The layer of a model at the slider's position. Models of different depths share the first and the last position.
function layerOf(model) {
  const steps = depth(theGroup()) - 1;
  return steps ? Math.round((state.layer / steps) * (model.layers.length - 1)) : 0;
}
