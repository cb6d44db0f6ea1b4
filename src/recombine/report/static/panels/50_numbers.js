// The tables of the parts of the diagnoses, for each model.
function buildNumbers(main) {
  if (DATA.embedded || !DATA.groups.some((group) => group.models.some((model) => model.tables.length))) return;
  const section = el("section", { id: "numbers" }, el("h2", {}, "Numbers of the diagnoses"));
  const controls = el("div", { class: "controls" });
  const tables = el("div", {});
  section.append(controls, tables);
  main.append(section);
  let chosen = 0;

  function draw() {
    const { models } = theGroup();
    chosen = Math.min(chosen, models.length - 1);
    refill(
      controls,
      choice(
        "Model",
        models.map((model) => model.name),
        chosen,
        (i) => {
          chosen = i;
          draw();
        },
      ).root,
    );
    tables.replaceChildren(...models[chosen].tables.map(foldedTable));
  }

  onChange((what) => {
    if (what === "all") draw();
  });
}

PANELS.push({ id: "numbers", name: "Numbers", build: buildNumbers });
