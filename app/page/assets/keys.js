// Keys. Each has a visible way, and all are listed at /dev/help.
import { nextTheme } from './theme.js';

const places = {
  c: '/dev/', t: '/dev/turns', i: '/dev/activities', a: '/dev/actions', p: '/dev/prompts', s: '/dev/skills', k: '/dev/parked', n: '/dev/numbers', e: '/dev/evals',
};
let went = 0; // when g was pressed

function row(step) {
  const links = [...document.querySelectorAll('.turns [data-turn] a')];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + step))].focus();
}

const keys = {
  '?': () => { location.href = '/dev/help'; },
  m: () => (document.getElementById('text') ?? { focus: () => { location.href = '/dev/'; } }).focus(),
  j: () => row(1),
  k: () => row(-1),
  d: nextTheme,
  '/': () => { const q = document.getElementById('q'); if (q) q.focus(); else location.href = '/dev/turns#q'; },
  r: () => document.querySelector('[data-do=r]')?.click(),
  f: () => document.querySelector('[data-do=f]')?.click(),
  s: () => document.querySelector('[data-do=s]')?.click(),
  Escape: () => {
    const menu = document.querySelector('.menu[open], .acts [open]');
    if (menu) {
      menu.open = false;
      menu.querySelector('summary').focus();
      return;
    }
    const back = document.querySelector('[data-do=back]'); if (back) back.click(); else if (document.querySelector('[data-page]')) location.href = '/dev/turns';
  },
};

if (location.hash === '#q') { // came with /
  document.getElementById('q')?.focus();
  history.replaceState(null, '', location.pathname);
}

document.addEventListener('keydown', (e) => {
  const as = document.getElementById('as');
  if (e.altKey && /^[1-9]$/.test(e.key) && as && as.options[e.key - 1]) {
    as.selectedIndex = e.key - 1;
    as.dispatchEvent(new Event('change'));
    e.preventDefault();
    return;
  }
  const typing = e.target instanceof HTMLElement && e.target.closest('input, textarea, select, [contenteditable]');
  if (typing && e.key === 'Escape' && !e.target.closest('.menu, .acts')) { e.target.blur(); return; }
  if (typing && e.key !== 'Escape') return;
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (Date.now() - went < 1500 && places[e.key]) { location.href = places[e.key]; return; }
  went = e.key === 'g' ? Date.now() : 0;
  if (keys[e.key]) {
    e.preventDefault();
    keys[e.key]();
  }
});
