// Keeps what is shown up to date. One tab of a browser has the stream and tells the others, since a
// browser opens only six connections.
const same = { createHTML: (html) => html, createScriptURL: (url) => url };
export const policy = globalThis.trustedTypes?.createPolicy('planbot', same) ?? same;

/** Makes nodes of HTML that this server wrote. It is the only place where a script does. */
export function nodesOf(html) {
  const made = document.createElement('template');
  made.innerHTML = policy.createHTML(html);
  return made.content;
}

/** Makes what only a page without script has at once. */
export function unfold(of) {
  const later = of.querySelector(':scope > noscript');
  later?.replaceWith(...later.firstElementChild ? later.childNodes : [nodesOf(later.textContent)]);
}
document.addEventListener('toggle', (e) => unfold(e.target), true);

const after = []; // what is done with a part that has changed

/** Calls f with each part that was loaded anew, and waits for it. */
export function onChange(f) { after.push(f); }

const focusable = (el) => [...el.querySelectorAll('a, button, input, summary')];

/** Makes the children of a list the new ones: those that did not change stay as they are. */
function merge(list, fresh) {
  const had = new Map([...list.children].filter((el) => el.dataset.key).map((el) => [el.dataset.key, el]));
  let at = list.firstElementChild;
  for (const next of [...fresh.children]) {
    const old = had.get(next.dataset.key);
    const now = old && old.dataset.is === next.dataset.is ? old : next; // what has not changed may come without its content
    had.delete(next.dataset.key);
    if (old && now !== old) {
      const open = [...old.querySelectorAll('details')].map((d) => d.open);
      const tick = old.querySelector('[type=checkbox]')?.checked;
      if (at === old) at = old.nextElementSibling;
      const focused = document.activeElement;
      const focus = focusable(old).indexOf(focused);
      old.replaceWith(now);
      if (focus >= 0) (focused.closest('.card') ? document.getElementById('text') : focusable(now)[focus])?.focus({ preventScroll: true });
      now.querySelectorAll('details').forEach((d, i) => { d.open = open[i] ?? d.open; });
      if (tick) now.querySelector('[type=checkbox]').checked = true;
      if (at === now) at = now.nextElementSibling;
    } else if (now === at) {
      at = at.nextElementSibling;
    } else {
      list.insertBefore(now, at);
    }
  }
  for (const gone of had.values()) gone.remove();
}

/** Loads a part of the chat: of its list's entries, those that are not shown as they are now. */
async function load(part, list) {
  const query = new URLSearchParams(location.search);
  const turn = document.getElementById('turn')?.dataset.open;
  if (turn) query.set('turn', turn);
  const as = document.getElementById('as')?.value;
  if (as) query.set('as', as);
  if (list) query.set('have', [...list.children].map((el) => el.dataset.is ?? '').join(' '));
  const answer = await fetch(`/dev/parts/${part}?${query}`, { headers: { accept: 'text/html' } });
  if (!answer.ok) throw new Error(`${part}: ${answer.status}`);
  return nodesOf(await answer.text());
}

async function messages() {
  const log = document.getElementById('messages');
  if (!log) return;
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  merge(log, await load('messages', log));
  for (const f of after) await f(log);
  if (atEnd) log.scrollTop = log.scrollHeight;
}

/** Adds the rest of a long list, once its beginning is shown. */
function addRest() {
  const rest = document.querySelector('#turns > noscript');
  if (!rest) return;
  document.querySelector('#turns tbody').append(...nodesOf(rest.textContent).querySelectorAll('tr'));
  rest.remove();
}
requestAnimationFrame(() => setTimeout(addRest));

async function turns() {
  addRest();
  const list = document.querySelector('#turns tbody');
  if (list) merge(list, (await load('turns', list)).querySelector('tbody'));
}

async function rooms() {
  const list = document.querySelector('.rooms ul');
  if (list) merge(list, (await load('rooms', list)).querySelector('ul'));
}

/** Keeps the bar of the faults up to date. */
async function alarm() {
  const words = document.getElementById('alarm-words');
  words?.replaceChildren(await load('alarm'));
  if (!words) return;
  const bar = document.getElementById('alarm');
  bar.hidden = !words.textContent.trim();
  bar.querySelector('form').hidden = !words.querySelector('[data-set]');
}

/** Loads the open turn anew. What is open in it, and the focus, stay. */
async function turn() {
  const part = document.getElementById('turn');
  if (!part?.dataset.open) return;
  let fresh;
  if (part.dataset.page === undefined) fresh = await load('turn');
  else {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (!answer.ok) return;
    fresh = nodesOf(await answer.text()).querySelector('#turn');
  }
  for (const one of [part, fresh]) one.querySelectorAll('details').forEach((d) => unfold(d)); // both have the same parts then
  const open = new Set([...part.querySelectorAll('details[open]')].map((d) => nameOf(d)));
  const focus = document.activeElement && part.contains(document.activeElement) ? nameOf(document.activeElement) : '';
  part.replaceChildren(...fresh.childNodes);
  for (const d of part.querySelectorAll('details')) d.open ||= open.has(nameOf(d));
  if (focus) [...part.querySelectorAll('a, summary')].find((el) => nameOf(el) === focus)?.focus();
}

const nameOf = (el) => {
  const section = el.closest('section[aria-labelledby]');
  const all = section ? [...section.querySelectorAll(el.tagName)] : [];
  return `${section?.getAttribute('aria-labelledby')} ${el.tagName} ${all.indexOf(el)} ${section ? '' : el.textContent}`;
};

/** Opens a turn beside the chat. */
export async function openTurn(id) {
  const part = document.getElementById('turn');
  part.dataset.open = id;
  const query = new URLSearchParams(location.search);
  query.set('turn', id);
  history.replaceState(null, '', `?${query}`);
  await turn();
  part.scrollIntoView();
  refresh('turns'); // which marks it
}

// Changes are collected for a moment, and one load runs at a time.
const due = new Set();
let busy = false;
export async function refresh(...what) {
  for (const one of what) due.add(one);
  if (busy) return;
  busy = true;
  try {
    while (due.size) {
      const now = [...due];
      due.clear();
      for (const one of now) await { messages, rooms, turns, turn, alarm }[one]().catch(() => {});
      await new Promise((done) => { setTimeout(done, 80); });
    }
  } finally { busy = false; }
}

let seen = document.querySelector('[data-last]')?.dataset.last ?? ''; // the id of an event; '': what was before does not matter
const others = 'BroadcastChannel' in globalThis ? new BroadcastChannel('planbot') : null;

function changed({ id, kind, turns: ids = [], rooms = [] }) {
  seen = Math.max(seen, id);
  const room = document.querySelector('[data-room]')?.dataset.room;
  const open = document.getElementById('turn')?.dataset.open;
  if (kind === 'reset') refresh('messages', 'rooms', 'turns', 'turn', 'alarm');
  if (rooms.includes(room) || ids.length) refresh('messages');
  if (rooms.some((one) => one !== room && one !== '!alarm')) refresh('rooms');
  if (ids.length) refresh('turns');
  if (rooms.includes('!alarm') || ids.length && document.getElementById('alarm')?.hidden === false) refresh('alarm');
  if (ids.includes(open)) refresh('turn');
}

let missed = 0; // the timer of a bot that does not answer
/** Says in every tab that the bot has ended, or was started again: `started` tells one start from another. */
function presence({ gone, started, keeps }) {
  const note = document.getElementById('gone');
  const was = note.dataset.started;
  const show = (words) => {
    note.hidden = !words;
    note.firstElementChild.textContent = words;
    for (const el of document.querySelectorAll('#say textarea')) el.readOnly = gone;
    for (const el of document.querySelectorAll('#say button')) el.disabled = gone;
  };
  if (gone) {
    missed ||= setTimeout(show, 1500, 'The bot has ended, or cannot be reached. This page waits for it.');
    return;
  }
  clearTimeout(missed);
  missed = 0;
  show(was === started ? '' : `The bot was started again. Turns and messages of before are ${keeps ? 'kept' : 'gone'}.`);
}

function tell(what) {
  presence(what);
  others?.postMessage(what);
}

function stream() {
  return new Promise((gone) => {
    const source = new EventSource(`/dev/stream?after=${seen}`);
    const take = (e) => {
      const what = { ...JSON.parse(e.data), id: Number(e.lastEventId), kind: e.type };
      if (e.type === 'reset') seen = 0;
      changed(what);
      others?.postMessage(what);
    };
    source.addEventListener('change', take);
    source.addEventListener('reset', take);
    source.addEventListener('hello', (e) => {
      document.documentElement.dataset.live = 'yes';
      tell({ gone: false, ...JSON.parse(e.data) });
    });
    source.addEventListener('bye', () => { document.documentElement.dataset.live = 'no'; source.close(); setTimeout(gone, 1000); });
    source.addEventListener('error', () => {
      tell({ gone: true });
      if (source.readyState === EventSource.CLOSED) setTimeout(gone, 1000);
    });
  });
}

async function live() {
  for (;;) await stream();
}

if (others) others.onmessage = (e) => ('gone' in e.data ? presence(e.data) : changed(e.data));
if (navigator.locks) navigator.locks.request('planbot-stream', live);
else live();

document.addEventListener('click', async (e) => {
  const copied = e.target instanceof Element && e.target.closest('[data-copy]');
  if (!copied) return;
  await navigator.clipboard.writeText(copied.dataset.copy);
  copied.textContent = 'Copied';
});
document.addEventListener('click', (e) => {
  const link = e.target instanceof Element && e.target.closest('[data-turn-link]');
  const part = document.getElementById('turn');
  if (!link || !part || part.dataset.page !== undefined || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
  e.preventDefault();
  openTurn(link.dataset.turnLink);
});
document.addEventListener('submit', async (e) => { // a pin, without another page: the list shows it as any other change
  if (e.target.id !== 'pin') return;
  e.preventDefault();
  const body = new URLSearchParams(new FormData(e.target, e.submitter));
  const answer = await fetch(e.submitter.formAction, { method: 'POST', body, headers: { accept: 'application/json' } });
  if (!answer.ok) location.reload(); // for the token of a new process
});
// The list follows its filter.
const filter = document.getElementById('filter');
filter?.addEventListener('input', () => {
  history.replaceState(null, '', `?${new URLSearchParams(new FormData(filter))}`);
  refresh('turns');
});
/** Opens the part of a turn that the address names. */
const reveal = () => { document.querySelector(`.in[id="${CSS.escape(location.hash.slice(1))}"]`)?.closest('details').setAttribute('open', ''); };
addEventListener('hashchange', reveal);
reveal();
