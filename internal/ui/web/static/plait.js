// The page is made by the server. This follows the journal and asks for the page again when
// something happened; it sends what forms say as JSON; and it knows a few keys.
"use strict";
(() => {
  const main = () => document.querySelector("main");
  const live = document.getElementById("live");

  // Draw what came in the place of what is there, and keep what a person has open or writes. A question that is another
  // one now is drawn anew.
  const key = (n) => n.nodeType === 1 ? (n.id || n.dataset.key || "") + (n.dataset.digest || "") : "";
  function draw(from, to) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || key(from) !== key(to)) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to)) return;
    if (from.contains(document.activeElement) && from.matches("input,textarea,select")) return;
    if (from.matches("form .said, [data-kept]") || from.matches("form button") && from.disabled) return;
    if (from.nodeName === "BUTTON") { // a focused one must not come to do something else
      const other = to.cloneNode(true);
      if (from.matches("[data-unseen]:enabled")) { other.disabled = false; other.removeAttribute("title"); }
      if (!from.isEqualNode(other)) from.replaceWith(to.cloneNode(true));
      return;
    }
    const kept = (a) => from.nodeName === "DETAILS" && a.name === "open";
    for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !kept(a)) from.removeAttribute(a.name);
    for (const a of to.attributes) if (!kept(a) && from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
    if (from.matches("textarea,input") && from.value !== "") return;
    const old = new Map(), stay = new Set([...to.childNodes].map(key));
    for (const n of [...from.childNodes]) { // what goes, goes first: what stays need not be moved, which takes its focus
      if (key(n) && stay.has(key(n))) old.set(key(n), n);
      else if (key(n)) n.remove();
    }
    let at = from.firstChild;
    for (const n of to.childNodes) {
      const known = key(n) && old.get(key(n));
      if (known) {
        while (at && at !== known && at.nodeType === 3) at = gone(at); // space around what went
        if (known !== at) from.insertBefore(known, at); else at = at.nextSibling;
        draw(known, n);
      } else if (at && !key(at)) {
        const next = at.nextSibling;
        draw(at, n);
        at = next;
      } else {
        from.insertBefore(n.cloneNode(true), at);
      }
    }
    while (at) at = gone(at);
  }
  function gone(n) {
    const next = n.nextSibling;
    n.remove();
    return next;
  }

  const busy = new WeakSet(); // forms that are being sent: keys can send one whose buttons cannot be pressed

  // What somebody writes outlives its form: it comes back when the form does.
  const drafts = new Map();
  const draft = (f) => [f.form.dataset.api, ...["at", "about"].map((n) => f.form.elements[n] ? f.form.elements[n].value : ""), f.name].join(" ");
  const written = () => main().querySelectorAll("form[data-api] textarea, form[data-api] input[type=text]");
  function keep() { for (const f of written()) if (busy.has(f.form)) continue; else if (f.value) drafts.set(draft(f), f.value); else drafts.delete(draft(f)); }
  function bring() { for (const f of written()) if (!f.value && drafts.has(draft(f))) f.value = drafts.get(draft(f)); }

  // Who writes goes on where their field is drawn anew.
  function redraw(to) {
    const on = document.activeElement, at = on.form && on.form.dataset.api && on.matches("textarea, input[type=text]") && draft(on);
    const part = at && [on.selectionStart, on.selectionEnd, on.selectionDirection];
    keep();
    draw(main(), to);
    bring();
    const now = at && document.activeElement !== on && [...written()].find((f) => draft(f) === at);
    if (now) { now.focus({ preventScroll: true }); now.setSelectionRange(...part); }
    look();
  }

  let asking = false, again = false;
  async function refresh() {
    if (asking) { again = true; return; }
    asking = true;
    const begun = performance.now();
    try {
      const r = await fetch(location.href, { credentials: "same-origin" });
      if (r.ok) {
        const doc = new DOMParser().parseFromString(await r.text(), "text/html");
        const low = innerHeight + scrollY >= document.body.scrollHeight - 80;
        if (doc.querySelector("main")) redraw(doc.querySelector("main"));
        if (low) toTail();
        performance.clearMeasures();
        performance.measure("plait-update", { start: begun });
        lookAgain();
        reachable();
        const n = document.getElementById("waiting"), m = doc.getElementById("waiting");
        if (n && m) n.textContent = m.textContent;
        document.title = doc.title;
      }
    } catch { /* the stream says that the server is gone */ }
    asking = false;
    if (again) { again = false; soon(); }
  }
  // That somebody has stopped working is no event: such a page is asked for again, ever later.
  let patience = 1000, later = 0;
  function lookAgain() {
    clearTimeout(later);
    if (!document.querySelector("[data-again]")) { patience = 1000; return; }
    later = setTimeout(soon, patience);
    patience = Math.min(30000, 2 * patience);
  }
  // A conversation is read at its end.
  function toTail() { if (document.querySelector("[data-tail]")) scrollTo(0, document.body.scrollHeight); }
  let timer = 0, last = 0;
  function soon() {
    if (timer || document.hidden) return; // who looks at the page again, asks for it again
    timer = setTimeout(() => { timer = 0; last = Date.now(); refresh(); }, Math.max(150, 1000 - (Date.now() - last)));
  }

  // Follow the journal while somebody looks: a browser has few connections for all its
  // pages. It comes back by itself, and says where it was.
  let stream = null, seen = "";
  function follow() {
    const about = document.body.dataset.follow;
    if (about === undefined || !window.EventSource || stream || document.hidden) return;
    const q = new URLSearchParams(about);
    if (seen) q.set("after", seen);
    const s = stream = new EventSource("/api/v1/events?" + q);
    let missed = false;
    const note = (e) => { seen = e.lastEventId || seen; };
    s.onopen = () => { live.textContent = "live"; live.className = ""; if (missed) { missed = false; soon(); } };
    s.onerror = () => { live.textContent = "not connected"; live.className = "off"; missed = true;
      if (s.readyState === EventSource.CLOSED && stream === s) { stream = null; setTimeout(back, 5000); } // it was refused: the browser does not come back
    };
    for (const type of (document.body.dataset.types || "").split(" ")) if (type) s.addEventListener(type, (e) => { note(e); soon(); });
    s.addEventListener("ready", note);
    s.addEventListener("beat", note);
    s.addEventListener("done", () => { live.textContent = "the server ended"; live.className = "off"; missed = true; });
  }
  function leave() {
    if (stream) stream.close();
    stream = null;
  }
  function back() {
    if (stream || document.body.dataset.follow === undefined) return;
    follow();
    soon();
  }
  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else back(); });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (e) => { if (e.persisted) back(); });

  // Forms become JSON. What a button says goes with it; one with data-bare sends nothing of the form. A form with data-press is sent by its buttons alone, and by
  // one press of them: the second of a double click may meet the button of another form, which took the place of the first.
  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (!form.dataset.api) return;
    e.preventDefault();
    if (form.dataset.press === undefined) send(form, e.submitter);
  });
  document.addEventListener("click", (e) => {
    const button = e.target.closest("form button[type=button][data-api]");
    if (button && e.detail < 2) send(button.form, button);
  });
  // An answer is held for five seconds, in which it can be taken back. Another answer to the same question replaces it;
  // one to another question sends it, and so does leaving.
  let held = null;
  function hold(what, question) {
    if (held) held.end(held.question !== question);
    return new Promise((done) => {
      const end = (sent) => { clearTimeout(timer); held = null; line("held", ""); done(sent); };
      const timer = setTimeout(end, 5000, true);
      held = { question, end };
      tell("");
      line("held", what + ". Sent in five seconds.", "Undo (Esc)", () => end(false));
    });
  }
  addEventListener("pagehide", () => { if (held) held.end(true); });

  async function send(form, button) {
    if (busy.has(form)) return;
    if (form.dataset.sure && !confirm(form.dataset.sure)) return;
    const body = {}, bare = button && button.dataset.bare !== undefined;
    if (!bare) for (const [k, v] of new FormData(form)) if (v !== "") body[k] = form.elements[k].type === "checkbox" ? true : v;
    if (button && button.name) body[button.name] = button.dataset.true === undefined ? button.value : true; // over what was written beside it
    const said = form.querySelector(".said");
    const buttons = form.querySelectorAll("button");
    const free = () => { busy.delete(form); buttons.forEach((b) => { b.disabled = b.dataset.unseen !== undefined; }); look(); };
    busy.add(form);
    if (!bare) for (const f of form.querySelectorAll("textarea, input[type=text]")) drafts.delete(draft(f));
    buttons.forEach((b) => { b.disabled = true; });
    const path = button && button.dataset.api || form.dataset.api, json = JSON.stringify(body);
    const put = () => { for (const f of form.querySelectorAll("textarea, input[type=text]")) if (f.value) drafts.set(draft(f), f.value); };
    const gate = path.match(/^\/api\/v1\/gates\/[^/]*/);
    if (gate && !await hold((button || form.querySelector("button")).textContent, gate[0])) {
      put();
      bring();
      free();
      return;
    }
    try { // an answer may be sent while the page is left, which takes fewer than 64 KiB
      const r = await fetch(path, { method: "POST", keepalive: gate !== null && json.length < 1 << 14, headers: { "Content-Type": "application/json" }, body: json });
      const text = await r.text();
      let v;
      try { v = JSON.parse(text); } catch { throw new Error(text || r.statusText); }
      if (!v.ok) throw new Error(v.error.message);
      if (said) said.textContent = "";
      if (body.check) { tell(v.data.summary); free(); return; }
      if (form.dataset.next) { location.href = form.dataset.next.replace("{id}", encodeURIComponent(v.data.thread || v.data.id || "")); return; }
      if (!bare) form.reset();
      tell(v.data.summary || form.dataset.done);
      soon();
    } catch (err) {
      put();
      if (form.isConnected && said) { said.textContent = err.message; said.classList.remove("good"); }
      else { tell(err.message); bring(); } // its place was taken meanwhile
    }
    free();
  }

  // What became of the last thing that was done: it stays until it is closed, or the next one is done.
  function tell(text) { line("told", text, "Close", () => tell("")); }
  function line(id, text, label, act) {
    const place = document.getElementById(id);
    place.textContent = "";
    if (!text) return;
    const p = place.appendChild(document.createElement("p")), button = document.createElement("button");
    p.appendChild(document.createElement("span")).textContent = text;
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", act);
    p.appendChild(button);
  }

  // A key answers only what was seen to its end, unchanged and on the screen for a second. The form is its end, once all
  // lines of the change before it are there.
  const looked = new Map();
  function look() {
    for (const card of document.querySelectorAll(".asked[data-digest]")) {
      const id = card.id + card.dataset.digest, form = card.querySelector("form.answer");
      if (!looked.has(id) || document.hidden) looked.set(id, { since: performance.now(), end: false });
      const at = form && form.getBoundingClientRect(), around = card.parentElement.getBoundingClientRect();
      const whole = !card.querySelector(":scope > .change :is(.lines[data-load], [data-rest])");
      if (whole && at && at.height && at.bottom > 0 && at.top < Math.min(innerHeight, around.bottom)) looked.get(id).end = true;
      if (looked.get(id).end) for (const b of card.querySelectorAll("[data-unseen]:disabled")) if (!busy.has(b.form)) { b.disabled = false; b.removeAttribute("title"); }
    }
  }
  setInterval(look, 250);
  document.addEventListener("click", (e) => {
    const card = e.target.closest(".change-list a, .change-ways a") && e.target.closest(".asked[data-digest]");
    const seen = card && looked.get(card.id + card.dataset.digest);
    if (seen) { seen.end = true; look(); }
  });
  function answerBy(key) {
    const card = document.querySelector(".inbox .asked[data-digest]");
    if (!card) return;
    if (key === "e") {
      const edit = card.querySelector("details[data-key=edit]");
      if (edit) { edit.open = true; edit.querySelector("textarea").focus(); }
      return;
    }
    const seen = looked.get(card.id + card.dataset.digest), button = card.querySelector(`[data-key-of=${key}]`);
    if (!button || busy.has(button.form)) return;
    if (!seen || !seen.end) tell("Look at all of it first: a key counts once its end was on the screen.");
    else if (performance.now() - seen.since < 1000) tell("It was on the screen for less than a second. Press again.");
    else button.click();
  }

  // What scrolls by itself can be reached by the keyboard.
  function reachable() {
    for (const e of document.querySelectorAll("main pre, main .scroll:not([role])")) {
      const scrolls = e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1;
      if (scrolls && !e.hasAttribute("tabindex")) e.tabIndex = 0;
      if (!scrolls && e.hasAttribute("tabindex")) e.removeAttribute("tabindex");
    }
  }

  document.addEventListener("click", (e) => {
    const copy = e.target.closest("[data-copy]");
    if (copy) { e.preventDefault(); navigator.clipboard && navigator.clipboard.writeText(copy.dataset.copy); copy.classList.add("ok"); }
    if (e.target.closest("#help")) keys.showModal();
    if (e.target.closest("#theme")) {
      const dark = document.documentElement.classList.contains("dark") || (!document.documentElement.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
      theme(dark ? "light" : "dark");
      try { localStorage.setItem("plait-theme", dark ? "light" : "dark"); } catch { /* not kept */ }
    }
  });
  document.addEventListener("change", (e) => {
    if (e.target.matches("[data-all]")) for (const box of document.querySelectorAll("input[name=task][form=many]")) box.checked = e.target.checked;
  });
  function theme(name) { document.documentElement.classList.remove("light", "dark"); if (name) document.documentElement.classList.add(name); }
  try { theme(localStorage.getItem("plait-theme") || ""); } catch { /* the system's */ }

  // Keys, as the dialog of the frame lists them.
  const keys = document.getElementById("keys");
  let before = "";
  document.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.matches("[data-send]")) { e.preventDefault(); e.target.form.requestSubmit(); return; }
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.target.matches("[data-enter]")) { e.preventDefault(); if (e.target.value.trim()) e.target.form.requestSubmit(); return; }
    if (e.key === "Escape" && held && !document.querySelector("dialog[open]")) { e.preventDefault(); held.end(false); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || keys.open || e.target.matches("input,textarea,select")) { before = ""; return; }
    if (e.key === "?") { keys.showModal(); return; }
    const go = { i: "/", t: "/tasks", c: "/chats", f: "/flows", n: "/new" };
    if (before === "g" && go[e.key]) { location.href = go[e.key]; return; }
    before = e.key;
    if (e.key === "/") { const s = document.querySelector("input[type=search]"); if (s) { e.preventDefault(); s.focus(); } }
    if (e.key === "j" || e.key === "k") {
      const rows = [...document.querySelectorAll("main [data-row]")].map((r) => r.querySelector("a.title, h3[tabindex]") || r.querySelector("a")).filter(Boolean);
      if (!rows.length) return;
      const chosen = rows.findIndex((r) => r.closest(".inbox") && r.hasAttribute("aria-current"));
      const at = chosen >= 0 ? chosen : rows.indexOf(document.activeElement);
      const to = rows[Math.min(rows.length - 1, Math.max(0, at + (e.key === "j" ? 1 : -1)))];
      to.focus();
      if (to.closest(".listing")) to.click();
    }
    if (/^[ades]$/.test(e.key)) answerBy(e.key);
  });
  document.addEventListener("plait:again", refresh); // other scripts ask for the page anew
  document.addEventListener("toggle", reachable, true);
  addEventListener("resize", reachable);
  follow();
  lookAgain();
  reachable();
  if (!location.hash) toTail();
})();
