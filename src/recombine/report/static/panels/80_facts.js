// Facts of the runs: configuration, record of the training, and the command that trains the run again.
function buildFacts(main) {
  if (!DATA.runs.length) return;
  const section = el("section", { id: "runs" }, el("h2", {}, "Runs"));
  main.append(section);
  const list = el("div", { class: "card" });
  for (const run of DATA.runs) {
    const button = el("button", { type: "button", on: { click: () => copy(run.command, button) } }, "Copy");
    const versions = Object.entries(run.versions || {})
      .map(([name, version]) => `${name} ${version}`)
      .join(", ");
    const facts = [
      ["seed", run.config.seed],
      ["steps", `${run.steps}${run.stopped_early ? " (stopped early)" : ""}`],
      ["time", `${number(run.seconds)} s on ${run.device}, ${run.threads} ${run.threads === 1 ? "thread" : "threads"}`],
      ["finished", run.finished],
      ["versions", versions],
      ["folder", run.path],
      ...Object.entries(run.summary || {}).map(([key, value]) => [key.replaceAll("_", " "), number(value)]),
    ];
    const details = el(
      "details",
      { id: `run-${run.run}`, class: "run" },
      el(
        "summary",
        {},
        el("code", {}, run.run),
        el("span", { class: "grow" }, run.name),
        el("span", { class: "note" }, `seed ${run.config.seed}`),
      ),
      el(
        "div",
        {},
        el("div", { class: "command" }, el("pre", {}, el("code", {}, run.command)), button),
        el(
          "table",
          {},
          el(
            "tbody",
            {},
            facts.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, value ?? "–"))),
          ),
        ),
        el("pre", { "aria-label": "configuration", tabindex: 0 }, JSON.stringify(run.config, null, 2)),
      ),
    );
    details.addEventListener("toggle", () => {
      if (details.open) {
        state.run = run.run;
        writeLink();
      } else if (state.run === run.run) {
        state.run = "";
        writeLink();
      }
    });
    list.append(details);
  }
  section.append(list);
}

// Opens the facts of a run. Returns false if the run is not on this page.
function openRun(id) {
  const details = id && byId(`run-${id}`);
  if (!details) return false;
  details.open = true;
  details.scrollIntoView({ block: "start" });
  details.querySelector("summary").focus({ preventScroll: true });
  return true;
}

PANELS.push({ id: "runs", name: "Runs", build: buildFacts });
