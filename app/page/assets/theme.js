// The switch between the system's theme, a light and a dark one.
const names = ['system', 'light', 'dark'];
const button = document.getElementById('theme');

const stored = () => { try { return localStorage.getItem('theme') ?? 'system'; } catch { return 'system'; } };

function apply(name) {
  if (name === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  if (button) button.textContent = `Theme: ${name}`;
  document.dispatchEvent(new Event('theme'));
}

/** Whether the page is dark now. */
export function isDark() {
  const name = stored();
  return name === 'dark' || (name === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
}

/** Goes to the next theme. */
export function nextTheme() {
  const name = names[(names.indexOf(stored()) + 1) % names.length];
  try { localStorage.setItem('theme', name); } catch { /* it lasts as long as the page */ }
  apply(name);
}

apply(stored());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => document.dispatchEvent(new Event('theme')));
if (button) {
  button.hidden = false;
  button.addEventListener('click', nextTheme);
}
