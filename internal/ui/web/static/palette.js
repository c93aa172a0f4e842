// A list of what there is and what can be done here, found by typing: Ctrl+K opens it. It only follows
// links and presses buttons that lead somewhere: nothing is approved, denied or answered from it.
"use strict";
(() => {
  const box = document.getElementById("palette");
  if (!box) return;
  const input = box.querySelector("input"), list = box.querySelector("ul");
  let all = [], shown = [], at = 0, asked = 0, moved = false;

  const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g; // what reorders or hides text
  const entry = (text, kind, act) => ({ text: text.replace(hidden, "\ufffd"), kind, act });
  const go = (to) => () => { location.href = to; };
  function use(button) {
    box.close();
    if (button.nodeName !== "SUMMARY") { button.click(); return; }
    button.parentElement.open = true;
    (button.parentElement.querySelector("textarea, input:not([type=hidden])") || button).focus();
  }
  function actions() {
    const out = [];
    for (const b of document.querySelectorAll("main .deeds summary.button, main .deeds a.button")) {
      if (b.textContent.trim() && !b.matches(".quiet")) out.push(entry(b.textContent.trim(), "this task", () => use(b)));
    }
    for (const a of document.querySelectorAll("header.top nav a, header.top a.first")) out.push(entry(a.firstChild.textContent.trim(), "page", go(a.href)));
    return out;
  }
  const fetched = (url) => fetch(url).then((r) => r.ok ? r.json() : { data: {} }).then((v) => v.data || {}, () => ({}));
  async function tasks(words) {
    const v = await fetched("/api/v1/tasks?n=8&q=" + encodeURIComponent(words));
    return (v.tasks || []).map((t) => entry((t.title || "(no title)") + " · " + t.short, t.display ? t.display.state : "task", go("/tasks/" + t.id)));
  }
  async function flows() {
    const page = new DOMParser().parseFromString(await fetch("/flows").then((r) => r.text(), () => ""), "text/html");
    return [...page.querySelectorAll("main a[href^='/flows/']")].map((a) => entry(a.textContent.trim(), "flow", go(a.getAttribute("href")))).filter((f) => f.text);
  }

  function draw() {
    list.replaceChildren(...shown.map((e, i) => {
      const li = document.createElement("li");
      li.id = "palette-" + i;
      li.setAttribute("role", "option");
      li.setAttribute("aria-selected", String(i === at));
      const kind = document.createElement("span");
      kind.textContent = e.kind;
      li.append(e.text, kind);
      li.addEventListener("click", e.act);
      return li;
    }));
    input.setAttribute("aria-expanded", String(shown.length > 0));
    if (shown[at]) { input.setAttribute("aria-activedescendant", "palette-" + at); list.children[at].scrollIntoView({ block: "nearest" }); }
    else input.removeAttribute("aria-activedescendant");
    box.querySelector("[role=status]").textContent = shown.length ? "" : "Nothing fits.";
  }
  async function look() {
    const words = input.value.trim().toLowerCase(), mine = ++asked;
    const fits = (e) => words.split(/\s+/).every((w) => (e.text + " " + e.kind).toLowerCase().includes(w));
    shown = all.filter(fits).slice(0, 30);
    at = 0;
    moved = false;
    draw();
    const typed = input.value.trim(), titled = await tasks(typed);
    if (mine !== asked) return; // something else was typed meanwhile
    const chosen = shown[at];
    if (typed) shown = titled.concat(shown, entry("Search for " + typed, "steps", go("/search?q=" + encodeURIComponent(typed))));
    else shown = shown.concat(titled);
    at = moved ? Math.max(0, shown.indexOf(chosen)) : 0;
    draw();
  }
  async function open() {
    if (box.open) { box.close(); return; }
    if (document.querySelector("dialog[open]")) return;
    all = actions();
    input.value = "";
    box.showModal();
    look();
    all = all.concat(await flows());
    if (box.open) look();
  }
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === "k") { e.preventDefault(); open(); }
  });
  input.addEventListener("input", look);
  input.addEventListener("keydown", (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step && shown.length) { e.preventDefault(); at = (at + step + shown.length) % shown.length; moved = true; draw(); }
    if (e.key === "Enter" && !e.isComposing) { e.preventDefault(); e.stopPropagation(); if (shown[at]) shown[at].act(); }
  });
})();
