// The page: it asks the server for HTML by the part of the address after #, and sends forms. There is no other state.
"use strict";
const main = document.getElementById("main"), said = document.getElementById("said"), texts = document.body.dataset;
const TOKEN = "quietfield-studio-token";
let token = null, timer = 0, asked = 0;

async function ask(path, body) {
  const options = { headers: { "x-quietfield-token": token || "" } };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let answer;
  try { answer = await fetch(path, options); } catch { throw new Error(texts.lost); }
  const content = await answer.json();
  if (!answer.ok) throw new Error(answer.status === 401 && path !== "/session" ? texts.noToken : content.error);
  return content;
}

// The token of the session is kept where this origin alone can read it; the one in the address works once.
async function begin() {
  const once = new URLSearchParams(location.hash.slice(1)).get("token");
  token = localStorage.getItem(TOKEN);
  if (once) {
    history.replaceState(null, "", "/#/home");
    try { token = (await ask("/session", { once })).token; localStorage.setItem(TOKEN, token); } catch (error) {
      try { await ask("/page/home"); } catch { return fail(error); }  // a reload of a page that is open already
    }
  }
  if (!token) return fail(new Error(texts.noToken));
  show();
}

function fail(error, where) {
  const box = document.createElement("p");
  box.className = "alert";
  box.setAttribute("role", "alert");
  box.textContent = `${texts.error}: ${error.message}`;
  if (where) { where.querySelector(":scope > .alert[role]")?.remove(); where.append(box); return; }
  const head = document.createElement("h1");
  head.textContent = texts.error;
  main.replaceChildren(head, box);
}

const address = () => (location.hash.startsWith("#/") ? location.hash.slice(2) : "home");

// Show the page of the address. A page that waits for something asks again, and changes only if its content did.
async function show(again = false) {
  clearTimeout(timer);
  const mine = ++asked;
  try {
    const { html } = await ask(`/page/${address()}`);
    if (mine !== asked) return;
    const part = again && main.querySelector("[data-part]:has([data-poll])");  // the rest may be being filled in
    if (part) {
      const fresh = document.createElement("template");
      fresh.innerHTML = html;
      part.replaceWith(fresh.content.getElementById(part.id));
    } else if (!again || html !== main.dataset.shown) {
      const kept = main.dataset.page === address() ? typed() : new Map();
      main.innerHTML = html;
      main.dataset.shown = html;
      main.dataset.page = address();
      retype(kept);
      ready(main);
      const head = main.querySelector("h1");
      if (head) { document.title = `${head.textContent.trim()} – quietfield`; head.tabIndex = -1; }
      if (!again) { head?.focus({ preventScroll: true }); scrollTo(0, 0); }
    }
    const wait = main.querySelector("[data-poll]");
    if (wait) { tell(wait.textContent); timer = setTimeout(() => show(true), 1000); } else if (again) tell(main.querySelector(".good, .alert")?.textContent || "");
  } catch (error) { if (mine === asked) fail(error); }
}

// What was typed and not sent: the page is made anew when one of its forms was, and the others stay as they are. What
// the server has filled in otherwise meanwhile is not typed over; a revision is hidden, and is always the server's.
const written = () => [...main.querySelectorAll("form[data-post] [name]:is(input, select, textarea):not([type=hidden])")];
const isTicked = field => field.type === "checkbox" || field.type === "radio";
const place = field => [field.form.dataset.post, field.form.elements.what?.value, field.name, isTicked(field) && field.value].join();
const first = options => [...options].find(option => option.defaultSelected) || options[0];
const sent = field => (field.options ? first(field.options)?.value : isTicked(field) ? field.defaultChecked : field.defaultValue);
const shown = field => (isTicked(field) ? field.checked : field.value);

function typed() {
  const fields = written().filter(field => !field.form.dataset.busy && shown(field) !== sent(field));
  return new Map(fields.map(field => [place(field), { was: sent(field), is: shown(field) }]));
}

function retype(kept) {
  for (const field of written()) {
    const known = kept.get(place(field));
    if (known && known.was === sent(field)) field[isTicked(field) ? "checked" : "value"] = known.is;
  }
}

function tell(text) { if (said.textContent !== text) said.textContent = text; }

// Fields of a form: a text each, or a list where a name occurs several times.
function fields(form, button) {
  const found = {};
  for (const [name, value] of new FormData(form, button)) {
    found[name] = name in found ? [].concat(found[name], value) : value;
  }
  return found;
}

async function act(content) {
  if (content.go) { if (location.hash === content.go) show(); else location.hash = content.go; }
  else if (content.reload) await show();
  else if (content.open) window.open(content.open, "_blank", "noopener");
  else if (content.save) save(new Blob([content.text], { type: content.kind }), content.save);
  else if (content.target) { const place = document.querySelector(content.target); place.innerHTML = content.html; ready(place); }
  else if (content.html) { main.innerHTML = content.html; }
}

document.addEventListener("submit", async event => {
  const form = event.target;
  event.preventDefault();
  if (form.dataset.ask) {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const next = `#/${form.dataset.ask}?${query}`;
    if (next === location.hash) show(); else location.hash = next;
    return;
  }
  if (form.dataset.busy || (form.dataset.confirm && !confirm(form.dataset.confirm))) return;
  form.dataset.busy = "yes";  // a second press while the first is on its way sends nothing
  const body = fields(form, event.submitter), buttons = [...form.querySelectorAll("button:enabled")];
  buttons.forEach(button => { button.disabled = true; });
  tell(texts.working);
  try { await act(await ask(`/do/${form.dataset.post}`, body)); tell(""); } catch (error) { fail(error, form); tell(error.message); } finally {
    delete form.dataset.busy;
    buttons.forEach(button => { button.disabled = false; });
  }
});

document.addEventListener("click", async event => {
  const on = selector => event.target.closest(selector);
  let found;
  if ((found = on("[data-skip]"))) { event.preventDefault(); main.focus(); }
  else if ((found = on("[data-copy]"))) {
    await navigator.clipboard.writeText(found.parentElement.querySelector("code").textContent);
    tell(found.dataset.copy);
  } else if ((found = on("[data-ticket]"))) {
    try { await act(await ask("/do/ticket", { path: found.dataset.ticket })); } catch (error) { fail(error, found.parentElement); }
  } else if ((found = on("[data-picture]"))) picture(found.closest("figure").querySelector("svg"), found.dataset.picture);
  else if ((found = on("[data-table]"))) await act(await ask(`/do/${found.dataset.table}?${location.hash.split("?")[1] || ""}`, {}));
  else if ((found = on("[data-fill]"))) fill(found);
  else if ((found = on("[data-file]"))) {
    const { path, name } = found.closest("form").elements;
    path.value = found.dataset.file;
    name.value ||= path.value.replace(/^.*\/|\..*$/g, "").replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
    name.focus();
  }
  else if ((found = on("[data-node]"))) choose(found);
});

document.addEventListener("keydown", event => {
  const node = event.target.closest?.("[data-node]");
  if (node && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); choose(node); }
});

document.addEventListener("change", event => {
  const { target } = event;
  if (target.dataset.list) { if (target.value) main.querySelector(`[name="${target.dataset.list}"]`).value = target.value; }
  else if (target.form?.dataset.auto !== undefined) target.form.requestSubmit();
});

let live = 0;
document.addEventListener("input", event => {
  const { target } = event, form = target.form;
  if (target.dataset.slider) form.elements[target.dataset.slider].value = Number((10 ** target.value).toPrecision(2));
  else if (target.name === "epsilon") slide(form);
  if (!form?.dataset.live) return;
  clearTimeout(live);
  live = setTimeout(async () => {
    try { await act(await ask(`/do/${form.dataset.live}`, fields(form))); } catch (error) { document.getElementById("meaning").replaceChildren(); fail(error, document.getElementById("meaning")); }
  }, 120);
});

function slide(form) {
  const value = Math.log10(Number(form.elements.epsilon.value));
  const slider = form.querySelector("[data-slider]");
  if (slider && Number.isFinite(value)) slider.value = value;
}

function ready(part) { part.querySelectorAll("form[data-live]").forEach(slide); }

// Cut points from, to, in steps of.
function fill(button) {
  const [from, to, step] = ["from", "to", "step"].map(name => Number(button.parentElement.querySelector(`[data-range=${name}]`).value));
  const many = Math.floor((to - from) / step + 1e-9);
  if (!(step > 0) || !(many >= 0) || many > 1000) return;
  main.querySelector(`[name="${button.dataset.fill}"]`).value = Array.from({ length: many + 1 }, (_, i) => Number((from + i * step).toPrecision(12))).join(", ");
}

// Two attributes, one after the other, are joined or taken apart.
async function choose(node) {
  const graph = node.closest("[data-graph]"), first = graph.querySelector("[aria-pressed=true]");
  if (first === node) return node.setAttribute("aria-pressed", "false");
  if (!first) return node.setAttribute("aria-pressed", "true");
  const name = node.dataset.node, chosen = [first.dataset.node, name];
  try {
    await act(await ask(`/do/${graph.dataset.graph}`, { chosen, revision: graph.dataset.revision }));
    [...main.querySelectorAll("[data-node]")].find(one => one.dataset.node === name)?.focus();
    tell(chosen.join(" – "));
  } catch (error) { first.setAttribute("aria-pressed", "false"); fail(error, graph.parentElement); }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function picture(svg, kind) {
  const drawn = new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  if (kind === "svg") return save(drawn, "picture.svg");
  const image = new Image(), canvas = document.createElement("canvas");
  image.src = URL.createObjectURL(drawn);
  await image.decode();
  [canvas.width, canvas.height] = [2 * svg.getAttribute("width"), 2 * svg.getAttribute("height")];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob(blob => save(blob, "picture.png"), "image/png");
}

addEventListener("hashchange", () => { if (location.hash.startsWith("#token=")) begin(); else if (location.hash.startsWith("#/")) show(); });
begin();
