// The page of a task: zoom and pan of its timeline, the way through it by keys, the choice of a step in place, bars that
// grow, and Verify. The drawing is the server's, and all of it works without this, but for zoom.
"use strict";
(() => {
  const pane = () => document.querySelector("[data-timeline] .pane");
  const items = () => [...document.querySelectorAll("svg.timeline .item")];
  const again = () => document.dispatchEvent(new Event("plait:again"));

  // Zoom makes the plot wider; what was under the pointer stays there.
  const root = document.documentElement;
  let zoom = 1;
  function scale(to, x) {
    const p = pane();
    to = Math.min(64, Math.max(1, to));
    if (!p || to === zoom) return;
    const plot = p.querySelector(".plot"), names = p.querySelector(".names").offsetWidth;
    const at = x === undefined ? names + (p.clientWidth - names) / 2 : x - p.getBoundingClientRect().left;
    const share = (p.scrollLeft + at - names) / plot.offsetWidth;
    zoom = to;
    root.style.setProperty("--zoom", String(zoom));
    p.scrollLeft = share * plot.offsetWidth + names - at;
  }
  const steps = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, "0": 0 };
  const by = (key, x) => scale(zoom * steps[key], x);
  document.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey || !e.target.closest(".pane")) return;
    e.preventDefault();
    scale(zoom * Math.exp(-e.deltaY / 300), e.clientX);
  }, { passive: false });

  // Pan by holding the drawing. A press that moves nothing is a click.
  let held = null, moved = false;
  document.addEventListener("pointerdown", (e) => {
    const p = e.target.closest(".plot") && pane();
    moved = false;
    if (p && e.pointerType === "mouse" && e.button === 0) held = { p, x: e.clientX, y: e.clientY, left: p.scrollLeft, top: p.scrollTop };
  });
  document.addEventListener("pointermove", (e) => {
    if (!held || !moved && Math.abs(e.clientX - held.x) + Math.abs(e.clientY - held.y) < 5) return;
    moved = true;
    held.p.classList.add("held");
    held.p.scrollLeft = held.left - (e.clientX - held.x);
    held.p.scrollTop = held.top - (e.clientY - held.y);
  });
  addEventListener("pointerup", () => { if (held) held.p.classList.remove("held"); held = null; });
  document.addEventListener("dragstart", (e) => { if (e.target.closest && e.target.closest(".plot")) e.preventDefault(); });

  // What is chosen, a tab and a filter stand in the address, and the page is drawn anew with it.
  const leads = (a) => new URL(a.getAttribute("href"), location.href); // a link in a drawing has no pathname
  function choose(a) {
    history.pushState(null, "", a.getAttribute("href").replace("#chosen", ""));
    for (const o of items()) { o.classList.toggle("chosen", o === a); o.setAttribute("tabindex", o === a ? "0" : "-1"); }
    const beside = document.querySelector(".beside > .content");
    if (beside) beside.scrollTop = 0;
    again();
    if (pane() && matchMedia("(max-width: 71.99rem)").matches && leads(a).hash === "#chosen") document.getElementById("chosen").scrollIntoView();
  }
  addEventListener("popstate", () => { if (document.querySelector(".panes")) again(); });
  document.addEventListener("click", (e) => {
    const button = e.target.closest("[data-zoom]");
    if (button) { by(button.dataset.zoom); return; }
    const verify = e.target.closest("[data-verify]");
    if (verify && !e.ctrlKey && !e.metaKey && !e.shiftKey) { e.preventDefault(); check(verify); return; }
    const a = e.target.closest("[data-here]");
    for (const d of document.querySelectorAll(".drop[open]")) if (a || !d.contains(e.target)) d.open = false;
    if (!a || e.ctrlKey || e.metaKey || e.shiftKey || e.button || leads(a).pathname !== location.pathname) return;
    e.preventDefault();
    if (!moved) { a.focus({ preventScroll: true }); choose(a); }
  });

  // Keys: along a lane, from lane to lane, to both ends.
  const middle = (a) => { const r = a.getBoundingClientRect(); return r.left + r.width / 2; };
  function next(a, key) {
    const all = items(), lane = Number(a.dataset.lane), same = all.filter((o) => Number(o.dataset.lane) === lane);
    const at = same.indexOf(a);
    if (key === "ArrowRight") return same[at + 1];
    if (key === "ArrowLeft") return same[at - 1];
    if (key === "Home") return all[0];
    if (key === "End") return all[all.length - 1];
    const lanes = all.map((o) => Number(o.dataset.lane)).filter((n) => key === "ArrowDown" ? n > lane : n < lane);
    if (!lanes.length) return undefined;
    const to = key === "ArrowDown" ? Math.min(...lanes) : Math.max(...lanes), x = middle(a);
    return all.filter((o) => Number(o.dataset.lane) === to).sort((o, p) => Math.abs(middle(o) - x) - Math.abs(middle(p) - x))[0];
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") for (const d of document.querySelectorAll(".drop[open]")) { d.open = false; d.querySelector("summary").focus(); }
    if (e.ctrlKey || e.metaKey || e.altKey || !e.target.closest || !e.target.closest(".pane")) return;
    if (e.key in steps) { e.preventDefault(); by(e.key); return; }
    if (!/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(e.key)) return;
    const a = e.target.closest(".item");
    const all = items(), start = all.find((o) => o.classList.contains("chosen")) || all[0];
    const to = a || start && /^(Home|End)$/.test(e.key) ? next(a || start, e.key) : start;
    e.preventDefault();
    if (!to) return;
    to.focus({ preventScroll: true });
    reveal(to);
    choose(to);
  });
  // reveal brings an item to where names and times do not cover it.
  function reveal(a) {
    const p = pane(), r = a.getBoundingClientRect(), b = p.getBoundingClientRect(), names = p.querySelector(".names").offsetWidth;
    if (r.left < b.left + names + 8) p.scrollLeft -= b.left + names + 8 - r.left;
    else if (r.right > b.right - 8) p.scrollLeft += Math.min(r.right - b.right + 8, r.left - b.left - names - 8);
    if (r.top < b.top + 34) p.scrollTop -= b.top + 34 - r.top;
    else if (r.bottom > b.bottom - 8) p.scrollTop += r.bottom - b.bottom + 8;
  }

  // Time goes on without events: while agents work the page is asked for again.
  setInterval(() => { if (!document.hidden && document.querySelector("[data-live] .item.running")) again(); }, 2000);

  // Verify says what was checked.
  const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  async function check(button) {
    const out = document.getElementById("checked");
    out.hidden = false;
    out.className = "callout";
    out.textContent = "Checking …";
    try {
      const r = await fetch(button.dataset.verify, { credentials: "same-origin" });
      const v = await r.json();
      if (!v.ok) throw new Error(v.error.message);
      const bad = v.data.problems;
      out.classList.add(bad.length ? "bad" : "good");
      out.textContent = bad.length
        ? `${bad.length} of ${number(v.data.objects)} objects are not as they were written: ` + bad.slice(0, 3).map((p) => p.what).join("; ")
        : `✓ Verified: ${number(v.data.objects)} objects were hashed again and are as they were written; every step of every thread follows from its flow, and nothing is missing.`;
      if (!bad.length) button.textContent = "Verified ✓";
    } catch (err) {
      out.classList.add("bad");
      out.textContent = "Not verified: " + err.message;
    }
  }
})();
