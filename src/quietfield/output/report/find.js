// Hide the attributes, pairs and tables whose names do not hold what is typed; without this script, all are there.
const bar = document.querySelector(".find"), field = bar.querySelector("input"), said = bar.querySelector("output");
const items = [...document.querySelectorAll("[data-find]")], folds = [...document.querySelectorAll(".more")];
bar.hidden = false;
field.addEventListener("input", () => {
  const wanted = field.value.trim().toLowerCase();
  for (const item of items) item.hidden = !item.dataset.find.toLowerCase().includes(wanted);
  const hits = items.filter(item => !item.hidden);
  for (const fold of folds) fold.open = wanted !== "" && hits.some(item => fold.contains(item));
  said.textContent = wanted ? `${hits.length} of ${items.length} entries` : "";
});
