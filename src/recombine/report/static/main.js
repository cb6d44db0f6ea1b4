// Builds the page: first the panels, so that the layout does not shift, then the arrays as they are decoded.
async function loadGroup(group) {
  if (group.loading) return group.loading;
  group.loading = Promise.all([
    ...["held", "gone", "drawn", "truth"].map((key) => loadInto(group, key, group[key], key)),
    ...group.models.flatMap((model) => [
      loadInto(model, "output", model.output, "outputs"),
      ...Object.values(model.landscapes).map((entry) => loadInto(model, entry, entry.map, "errors")),
      ...model.maps.map((entry) => loadInto(model, entry, entry.map, entry.part)),
      model.panels.superposition?.alone ? loadAlone(model) : null,
      loadMemories(model),
    ]),
  ]);
  await group.loading;
  group.scale = scaleOf(group);
  group.ready = true;
  return group;
}

// Loads the numbers of a group or a model and stores them under a name or in the entry that describes them.
async function loadInto(owner, place, about, part) {
  if (!about) return;
  try {
    const numbers = await load(about);
    if (typeof place === "string") owner.loaded[place] = numbers;
    else place.numbers = numbers;
  } catch (error) {
    owner.loaded.failed[part] = `This cannot be shown: ${error.message}.`;
  }
}

async function loadAlone(model) {
  try {
    model.loaded.alone = await Promise.all(model.panels.superposition.alone.map(load));
  } catch (error) {
    model.loaded.failed["input side"] = `This cannot be shown: ${error.message}.`;
  }
}

async function showGroup() {
  const group = theGroup();
  await loadGroup(group);
  if (group !== theGroup()) return;
  changed("all");
  document.documentElement.dataset.ready = "true";
}

function buildNotes(main) {
  if (!DATA.notes.length) return;
  main.append(
    el(
      "div",
      { class: "notes", id: "notes", role: "note" },
      "Not everything could be shown:",
      el(
        "ul",
        {},
        DATA.notes.map((text) => el("li", {}, text)),
      ),
    ),
  );
}

function buildNav() {
  for (const { id, name } of PANELS) {
    if (!id || !byId(id)) continue;
    byId("nav").append(
      el(
        "a",
        {
          href: `#${id}`,
          on: {
            click: (event) => {
              event.preventDefault(); // the fragment encodes the selected cell
              byId(id).scrollIntoView();
              byId(id).querySelector("h2")?.setAttribute("tabindex", "-1");
              byId(id).querySelector("h2")?.focus({ preventScroll: true });
            },
          },
        },
        name,
      ),
    );
  }
}

function buildTheme() {
  const button = byId("theme");
  const wished = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme || (wished.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(dark()));
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  wished.addEventListener("change", label);
  label();
}

function start() {
  const main = byId("main");
  for (const group of DATA.groups) {
    group.loaded = { failed: {} };
    for (const model of group.models) model.loaded = { failed: {} };
  }
  byId("headline").textContent = DATA.headline;
  if (DATA.groups.length) chooseGroup(0);
  const given = location.hash;
  buildNotes(main);
  for (const { build } of PANELS) build(main);
  buildNav();
  buildTheme();
  document.body.classList.toggle("only-explorer", DATA.embedded);
  byId("footer").append(...DATA.footer.map((text) => el("p", {}, text)));
  byId("copy-link").hidden = DATA.embedded; // a frame in a notebook has no address
  byId("copy-link").addEventListener("click", (event) =>
    copy(location.href.split("#")[0] + linkText(), event.currentTarget),
  );
  readLink(given);
  if (DATA.groups.length) changed("all"); // lay out the panels, which are still empty
  addEventListener("hashchange", () => {
    if (readLink(location.hash)) showGroup();
    if (new URLSearchParams(location.hash.slice(1)).has("run")) openRun(state.run);
  });
  addEventListener("DOMContentLoaded", () => {
    if (DATA.groups.length) showGroup();
    else document.documentElement.dataset.ready = "true";
    if (state.run) openRun(state.run);
  });
}

const DATA = JSON.parse(byId("data").textContent);
start();
