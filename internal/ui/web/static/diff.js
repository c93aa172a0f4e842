// A change, wherever a page shows it: keys, what was viewed, lines that are loaded when they are wanted, and comments on
// lines. The lines are the server's, and all but that works without this.
"use strict";
(() => {
  document.documentElement.dataset.scripts = "";
  const files = () => [...document.querySelectorAll("main .file")].filter((f) => f.checkVisibility());
  const of = (e) => e.closest && e.closest(".file");

  // What was viewed is kept in this browser: by the change of a file, so that another change of it is new.
  const most = 5000, name = "plait-viewed";
  let viewed = [];
  try { viewed = JSON.parse(localStorage.getItem(name)) || []; } catch { /* not kept */ }
  const seen = (key) => viewed.includes(key);
  function see(key, yes) {
    viewed = viewed.filter((k) => k !== key).concat(yes ? [key] : []).slice(-most);
    try { localStorage.setItem(name, JSON.stringify(viewed)); } catch { /* not kept */ }
  }
  function mark() {
    for (const f of document.querySelectorAll("main .file")) {
      const yes = seen(f.dataset.seen), box = f.querySelector(":scope > .viewed input");
      if (box.checked !== yes) box.checked = yes;
      if (f.classList.contains("seen") !== yes) f.classList.toggle("seen", yes);
    }
    for (const a of document.querySelectorAll(".change-list a[data-seen]")) a.classList.toggle("seen", seen(a.dataset.seen));
    for (const c of document.querySelectorAll(".change")) {
      const all = c.querySelectorAll(".file").length, n = c.querySelectorAll(".file.seen").length;
      const text = n ? `${n} of ${all} viewed` : "", out = c.querySelector("[data-progress]");
      if (out && out.textContent !== text) out.textContent = text;
    }
  }
  document.addEventListener("change", (e) => {
    const f = of(e.target);
    if (!f || !e.target.closest(".viewed")) return;
    see(f.dataset.seen, e.target.checked);
    f.querySelector("details").open = !e.target.checked;
    mark();
  });

  // Lines that are not on the page come from the page of the change.
  async function load(from, to) {
    if (from.dataset.loading) return;
    from.dataset.loading = "1";
    try {
      const r = await fetch(to, { credentials: "same-origin" });
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      const lines = doc.querySelector(".file .lines");
      if (!r.ok || !lines) throw new Error("they cannot be shown");
      const own = of(from).id, other = doc.querySelector(".file").id; // links to lines are to this page's
      for (const a of lines.querySelectorAll("a[data-line]")) {
        a.id = a.id.replace(other, own);
        a.setAttribute("href", "#" + a.id);
      }
      lines.dataset.kept = lines.dataset.loaded = "true";
      lines.dataset.key = from.dataset.key;
      from.replaceWith(lines);
    } catch (err) {
      delete from.dataset.loading;
      from.textContent = "The lines: " + err.message;
    }
  }
  const near = new IntersectionObserver((list) => {
    for (const e of list) if (e.isIntersecting) load(e.target, e.target.dataset.load);
  }, { rootMargin: "400px" });
  document.addEventListener("toggle", (e) => {
    const lines = e.target.open && e.target.parentNode.matches(".file") && e.target.querySelector(".lines[data-load]");
    if (lines) load(lines, lines.dataset.load);
  }, true);
  const watched = new WeakSet();
  function watch() {
    mark();
    for (const l of document.querySelectorAll(".lines[data-load]")) if (!watched.has(l)) { watched.add(l); near.observe(l); }
    for (const f of document.querySelectorAll(".file")) {
      const first = f.querySelector(".lines a[data-line]");
      if (first && !f.querySelector('.lines a[data-line][tabindex="0"]')) first.tabIndex = 0;
    }
  }
  new MutationObserver(watch).observe(document.querySelector("main"), { childList: true, subtree: true, attributeFilter: ["class"] });
  watch();

  // A comment on a line, or on all lines from start to end: one at a time, between the lines.
  let form = null, start = null, end = null;
  const old = (a) => a.closest("td").classList.contains("del"), sideOf = (a) => [...of(a).querySelectorAll("a[data-line]")].filter((o) => old(o) === old(a) && o.checkVisibility());
  function chosen() {
    const all = sideOf(end), i = all.indexOf(start), j = all.indexOf(end);
    return i < 0 ? [end] : all.slice(Math.min(i, j), Math.max(i, j) + 1);
  }
  function close() {
    if (!form) return;
    const lines = form.closest(".lines"), row = form.closest("tr.writing");
    form = null;
    row.remove();
    if (!lines.dataset.loaded) delete lines.dataset.kept;
  }
  function comment() {
    const change = end.closest(".change"), made = change && change.querySelector(":scope > form.remark");
    if (!made) return;
    const text = form ? form.elements.text.value : "";
    close();
    const lines = chosen(), a = lines.at(-1), file = of(a), was = old(a), row = a.closest("tr"), span = [lines[0].dataset.line, a.dataset.line];
    const path = was && file.dataset.before || file.dataset.path, where = path + ":" + (lines.length > 1 ? span.join("-") : span[0]);
    const at = row.parentNode.insertBefore(document.createElement("tr"), row.nextSibling);
    at.className = "writing";
    const cell = at.appendChild(document.createElement("td"));
    cell.colSpan = row.closest("table").matches(".pairs") ? 4 : 3;
    form = cell.appendChild(made.cloneNode(true));
    form.hidden = false;
    form.elements.text.value = text;
    form.elements.about.value = where;
    form.elements.tree.value = was ? change.dataset.from || "" : change.dataset.to || "";
    form.querySelector("[data-where]").textContent = (lines.length > 1 ? "Lines " + span.join(" to ") : "Line " + span[0]) + " of " + path + (was ? ", before the change" : "");
    form.dataset.line = lines.map((l) => (was ? l.closest("tr").querySelector("td.t.del") : l.closest("td").nextElementSibling).textContent.replace(/^(added|removed): /, "")).join("\n> ");
    for (const b of form.querySelectorAll("[data-way]")) { b.dataset.api = b.dataset.way; form.dataset.api = form.dataset.api || b.dataset.way; }
    at.closest(".lines").dataset.kept = "";
    form.elements.text.focus();
    form.addEventListener("reset", () => setTimeout(close)); // it was sent
  }
  document.addEventListener("click", (e) => {
    if (!e.target.closest) return;
    if (e.target.closest("form.remark [data-close]")) {
      const row = form.closest("tr").previousElementSibling;
      close();
      const back = row && row.querySelector("a[data-line]");
      if (back) back.focus();
      return;
    }
    if (e.target.closest("form.remark [data-above]")) {
      const all = sideOf(end), up = all[all.indexOf(chosen()[0]) - 1], low = chosen().at(-1);
      if (up) { here(up); here(low, true); comment(); }
      return;
    }
    const use = e.target.closest("form.remark [data-use]");
    if (use) {
      const text = use.closest("section.asked").querySelector('form.answer :is(input, textarea)[name="text"]');
      if (!form.reportValidity()) return;
      text.value = (text.value ? text.value + "\n\n" : "") + form.elements.about.value + "\n> " + form.dataset.line + "\n" + form.elements.text.value;
      close();
      text.focus();
      return;
    }
    const fold = e.target.closest("[data-unfold]");
    if (fold) {
      const part = fold.closest("tbody").nextElementSibling, shown = part.classList.toggle("shown");
      fold.setAttribute("aria-expanded", String(shown));
      fold.closest(".lines").dataset.kept = fold.closest(".lines").dataset.loaded = "true";
      return;
    }
    const whole = e.target.closest("a[data-whole]");
    if (whole && !e.ctrlKey && !e.metaKey && !e.shiftKey) { e.preventDefault(); load(whole.closest(".lines"), whole.href); return; }
    const copy = e.target.closest("a[data-copy-from]");
    if (copy && navigator.clipboard && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
      e.preventDefault();
      fetch(copy.href, { credentials: "same-origin" }).then((r) => r.text()).then((t) => navigator.clipboard.writeText(t)).then(
        () => { copy.textContent = "Copied"; setTimeout(() => { copy.textContent = "Copy as a patch"; }, 2000); }, () => { location.href = copy.href; });
      return;
    }
    const line = e.target.closest(".file a[data-line]");
    if (line && !e.ctrlKey && !e.metaKey) {
      e.preventDefault();
      history.replaceState(null, "", line.getAttribute("href"));
      here(line, e.shiftKey);
      comment();
    }
  });

  // Keys: from file to file, along lines, and what was viewed.
  function here(a, more) {
    if (!more || !start || of(start) !== of(a) || old(start) !== old(a)) start = a;
    end = a;
    for (const o of document.querySelectorAll("a.here")) o.classList.remove("here");
    for (const o of chosen()) o.classList.add("here");
    for (const o of of(a).querySelectorAll('a[data-line][tabindex="0"]')) o.tabIndex = -1;
    a.tabIndex = 0;
    a.focus({ preventScroll: true });
    a.scrollIntoView({ block: "nearest" });
  }
  function go(f) {
    f.querySelector("summary").focus({ preventScroll: true });
    f.scrollIntoView({ block: "start" });
    for (const a of document.querySelectorAll(".change-list a[aria-current]")) a.removeAttribute("aria-current");
    const link = f.closest(".change").querySelector(`.change-list a[href="#${CSS.escape(f.id)}"]`);
    if (link) { link.setAttribute("aria-current", "true"); link.scrollIntoView({ block: "nearest" }); }
  }
  let before = "";
  document.addEventListener("keydown", (e) => {
    const was = before;
    before = e.key;
    if (e.ctrlKey || e.metaKey || e.altKey || was === "g" || !e.target.matches || e.target.matches("input:not([type=checkbox]),textarea,select") ||
      document.querySelector("dialog[open]")) {
      if (e.key === "Escape" && form && form.contains(e.target)) { e.preventDefault(); form.querySelector("[data-close]").click(); }
      return;
    }
    const all = files();
    if (!all.length) return;
    const at = of(document.activeElement), i = all.indexOf(at);
    if (e.key === "n" || e.key === "p") {
      const to = e.key === "n" ? all[Math.min(all.length - 1, i + 1)] : all[Math.max(0, i - 1)];
      e.preventDefault();
      go(to);
      return;
    }
    if (!at) return;
    const line = document.activeElement.closest("a[data-line]");
    if (e.key === "v") { at.querySelector(":scope > .viewed input").click(); at.querySelector("summary").focus(); }
    if (e.key === "c" && (line || at.querySelector("a[data-line]"))) { e.preventDefault(); if (!line || line !== end) here(line || at.querySelector("a[data-line]")); comment(); }
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      const lines = [...at.querySelectorAll("a[data-line]")].filter((a) => a.checkVisibility()), on = document.activeElement;
      if (!lines.length || !line && on.nodeName !== "SUMMARY") return;
      e.preventDefault();
      const to = lines[line ? Math.min(lines.length - 1, Math.max(0, lines.indexOf(line) + (e.key === "ArrowDown" ? 1 : -1))) : 0];
      here(to, e.shiftKey && line);
    }
  });
})();
