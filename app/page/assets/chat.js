// The chat: the composer, mentions, and what is sent without loading the page anew.
import { onChange, refresh, unfold } from './live.js';

const form = document.getElementById('say');
const box = document.getElementById('text');
const list = document.getElementById('names');
const log = document.getElementById('messages');
const names = JSON.parse(box.dataset.names).map((name) => `@${name}`);
const commands = JSON.parse(box.dataset.commands) ?? [];

// What is not sent yet is there again for who comes back to the conversation.
const draft = `draft ${form.elements.room.value}`;
const keep = () => sessionStorage.setItem(draft, box.value);
box.value ||= sessionStorage.getItem(draft) ?? '';

/** Posts a form, and shows why when it fails. */
async function post(of, button, fault = 'This did not work') {
  const data = new URLSearchParams(new FormData(of, button));
  const as = document.getElementById('as');
  if (as && of !== form) data.set('as', as.value);
  const answer = await fetch(of.action, { method: 'POST', body: data, headers: { accept: 'application/json' } }).catch((err) => ({ ok: false, text: () => String(err) }));
  if (!answer.ok) say(`${fault}: ${await answer.text()}`);
  return answer.ok;
}

function say(text) {
  const note = document.createElement('p');
  note.className = 'fault';
  note.textContent = text;
  log.append(note);
  note.scrollIntoView();
}

document.addEventListener('submit', async (e) => {
  const of = e.target;
  if (of !== form && of.dataset.quiet === undefined) return;
  e.preventDefault();
  if (of !== form) {
    const opened = of.closest('.menu, .change');
    const sent = post(of, e.submitter); // which has read the form
    if (opened) {
      opened.open = false;
      box.focus();
    }
    await sent;
    return;
  }
  const text = box.value;
  if (!text.trim()) return;
  const sent = post(form, null, 'This was not sent'); // which has read the box
  box.value = '';
  keep();
  const own = document.createElement('article'); // until the page has it: the bot may crash first
  own.className = 'message theirs';
  own.dataset.key = `sending ${log.childElementCount}`;
  own.textContent = text;
  log.append(own);
  log.scrollTop = log.scrollHeight;
  if (!await sent) box.value ||= text;
  keep();
  log.scrollTop = log.scrollHeight;
  refresh('messages');
});

let chosen = 0;
/** What is begun before the cursor: a command, after a mention at most, or a mention. */
const begun = () => {
  const before = box.value.slice(0, box.selectionStart);
  return (/^(?:@[^/\n]*\s)?(\/\S*)$/.exec(before) ?? /(?:^|\s)(@[^@\n]*)$/.exec(before))?.[1].toLowerCase();
};
const found = () => {
  const word = begun();
  return word ? (word[0] === '@' ? names : commands).filter((name) => name.toLowerCase().startsWith(word) && name.toLowerCase() !== word.trim()) : [];
};

function offer() {
  const all = found();
  chosen = Math.min(chosen, Math.max(0, all.length - 1));
  list.hidden = !all.length;
  list.replaceChildren(...all.map((name, i) => {
    const option = document.createElement('div');
    option.role = 'option';
    option.id = `name-${i}`;
    option.textContent = name.replace(/^@/, '');
    option.ariaSelected = String(i === chosen);
    option.addEventListener('mousedown', (e) => { e.preventDefault(); pick(name); });
    return option;
  }));
  box.setAttribute('aria-controls', 'names');
  if (all.length) box.setAttribute('aria-activedescendant', `name-${chosen}`);
  else box.removeAttribute('aria-activedescendant');
}

function pick(name) {
  box.setRangeText(`${name} `, box.selectionStart - begun().length, box.selectionStart, 'end');
  chosen = 0;
  offer();
}

box.addEventListener('input', () => { chosen = 0; offer(); keep(); });
box.addEventListener('blur', () => { list.hidden = true; });
box.addEventListener('keydown', (e) => {
  const all = list.hidden ? [] : found();
  if (all.length && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
    chosen = (chosen + (e.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length;
    offer();
    e.preventDefault();
  } else if (all.length && (e.key === 'Enter' || e.key === 'Tab')) {
    pick(all[chosen]);
    e.preventDefault();
  } else if (all.length && e.key === 'Escape') {
    list.hidden = true;
    e.stopPropagation();
  } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    form.requestSubmit();
  } else if (e.key === 'ArrowUp' && !box.value) {
    const last = [...log.querySelectorAll('.theirs')].findLast((one) => one.dataset.from === document.getElementById('as').value)?.querySelector('.change');
    if (!last) return;
    last.open = true;
    unfold(last);
    const field = last.querySelector('[name=text]');
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    e.preventDefault();
  }
});

document.getElementById('as').addEventListener('change', () => refresh('messages')); // each sees their own cards

const maxKept = 60_000; // bytes of a request that browsers let outlive its page: 64 KiB

/** Delivers a click on a card, also if the page is left at once. */
export async function press(message, action) {
  const body = JSON.stringify({ room: document.querySelector('[data-room]').dataset.room, as: document.getElementById('as').value, message, ...action });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const answer = await fetch('/dev/chat/click', { method: 'POST', headers, body, keepalive: body.length * 3 < maxKept });
  if (!answer.ok) say(`This did not work: ${await answer.text()}`);
  refresh('messages');
}

const draw = async (again) => { if (log.querySelector('.card')) await (await import('./card.js')).drawCards(log, press, again); };
onChange(() => draw(false));
document.addEventListener('theme', () => draw(true));
const atEnd = () => { log.scrollTop = log.scrollHeight; };
atEnd();
draw(false).then(atEnd);
log.addEventListener('mouseover', (e) => near(e, '[data-of]', 'of', (id) => `[data-turn="${id}"]`));
document.getElementById('turns')?.addEventListener('mouseover', (e) => near(e, '[data-turn]', 'turn', (id) => `[data-of="${id}"]`));

/** Marks what belongs to the turn under the pointer. */
function near(e, from, name, to) {
  document.querySelectorAll('.near').forEach((el) => el.classList.remove('near'));
  const id = e.target instanceof Element && e.target.closest(from)?.dataset[name];
  if (id) document.querySelectorAll(to(id)).forEach((el) => el.classList.add('near'));
}
