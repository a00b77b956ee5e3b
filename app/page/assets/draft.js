// Renders the preview of a prompt anew while its draft is changed.
import { nodesOf } from './live.js';

const form = document.getElementById('draft');
const shown = document.getElementById('preview');
let timer = 0;
let last; // the request under way

async function preview() {
  last?.abort();
  const mine = new AbortController();
  last = mine;
  const body = new URLSearchParams(new FormData(form));
  body.set('part', '1');
  try {
    const answer = await fetch(form.action, { method: 'POST', body, signal: mine.signal, headers: { accept: 'text/html' } });
    if (!answer.ok) throw new Error(`the bot answered ${answer.status}`);
    const text = await answer.text();
    if (last !== mine) return;
    const made = nodesOf(text);
    shown.querySelector(':scope > .fault')?.remove();
    if (made.firstElementChild?.matches('.fault')) shown.prepend(made); // above the last one that was good
    else shown.replaceChildren(made);
  } catch (err) {
    if (err.name !== 'AbortError') shown.textContent = `There is no preview: ${err.message}. Load the page again.`;
  }
}

form.addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(preview, 300);
});
