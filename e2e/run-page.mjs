#!/usr/bin/env node
// Plays the scenarios on the bot's own page in Chromium, with a screenshot after every step in out/page/.
//   node run-page.mjs [scenario.json ...]     BOT_BIN: a built bot; CHROMIUM: the browser (/usr/bin/chromium)
// Whatever the page would load from elsewhere, each error on its console and each violation of its policy fails the step.
import path from 'node:path';
import { chromium } from 'playwright-core';
import { textOf } from './playground.mjs';
import { runAll } from './scenario.mjs';

const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1'];
const rooms = { personal: 'Mia Meyer', group: 'Lunch', channel: '# General' };
const events = { install: 'Install', uninstall: 'Uninstall', botAdded: 'Add the bot', botRemoved: 'Remove the bot', userAdded: 'Add a person', userRemoved: 'Remove a person' };
// The page has no message extensions.
const without = ['13-teams.json'];

/** Opens a page that notes what must not happen. */
export async function openPage(url, options = {}) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const faults = [];
  await context.route((to) => !['localhost', '127.0.0.1'].includes(to.hostname), (route) => { faults.push(`it asked for ${route.request().url()}`); return route.abort(); });
  await context.exposeBinding('violated', (_, what) => faults.push(what));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => globalThis.violated(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on('console', (line) => { if (line.type() === 'error') faults.push(`console: ${line.text()}`); });
  page.on('pageerror', (err) => faults.push(`error: ${err.message}`));
  if (url) await page.goto(url);
  return { browser, context, page, faults };
}

async function drive(client, dir) {
  const { browser, context, page, faults } = await openPage();
  const frames = []; // the bot's messages, new and changed
  const known = new Map();
  await context.exposeBinding('seen', (_, id, json) => {
    if (known.get(id) !== json) frames.push({ id, ...JSON.parse(json) });
    known.set(id, json);
  });
  await context.addInitScript(() => {
    const look = () => document.querySelectorAll('[data-from=bot]').forEach((el) => { if (el.dataset.activity) globalThis.seen(el.dataset.message, el.dataset.activity); });
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
    addEventListener('load', look);
  });
  const opened = new Set();
  const clean = () => { if (faults.length) throw new Error(faults.splice(0).join('; ')); };
  const last = () => page.locator('[data-from=bot]').last();
  const event = async (name) => {
    const more = page.getByText('More that can happen');
    if (!(await page.getByRole('button', { name: 'Install', exact: true }).isVisible())) await more.click();
    await page.getByRole('button', { name, exact: true }).click();
  };
  return {
    mark: () => frames.length,
    // messages are those that the page shows.
    async messages(mark) {
      clean();
      const shown = letters(await page.getByRole('log', { name: 'Messages' }).innerText());
      const byId = new Map();
      for (const frame of frames.slice(mark)) byId.set(frame.id, { ...frame, aiEntity: JSON.stringify(frame.entities ?? []).includes('AIGeneratedContent') });
      return [...byId.values()].filter((message) => textOf(message).split('\n').every((line) => shown.includes(letters(line))));
    },
    async open(name) {
      if (page.url() === 'about:blank') await page.goto(client.url);
      await page.getByRole('region', { name: 'Conversations' }).getByRole('link', { name: rooms[name], exact: true }).click();
      await page.getByRole('textbox', { name: 'Message' }).waitFor();
      await page.waitForFunction(() => document.documentElement.dataset.live === 'yes');
      if (!opened.has(name)) await event(events.botAdded);
      opened.add(name);
    },
    async say(text, mention) {
      const box = page.getByRole('textbox', { name: 'Message' });
      await box.click();
      if (mention) {
        await page.keyboard.type('@');
        await page.getByRole('listbox', { name: 'Mention' }).getByRole('option').first().waitFor();
        await page.keyboard.press('Enter');
      }
      await page.keyboard.type(text);
      await page.keyboard.press('Enter');
    },
    async press(title, fill) {
      for (const [label, value] of Object.entries(fill)) await page.locator('.message .card').getByLabel(label).last().fill(value);
      await page.locator('.message').getByRole('button', { name: title, exact: true }).last().click();
    },
    async submit(value) {
      const message = await last().getAttribute('data-message');
      await page.evaluate((body) => fetch('/dev/chat/click', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
        { room: 'mia', as: 'mia', message, type: 'Action.Submit', data: value });
    },
    mock: (type) => event(events[type]),
    async rate(reaction, text) {
      await last().getByRole('textbox', { name: 'What you think of it' }).fill(text);
      await last().getByRole('button', { name: reaction === 'like' ? 'Like' : 'Dislike', exact: true }).click();
      await page.locator('[data-from=bot] [aria-pressed=true]').last().waitFor();
    },
    shot: (name) => page.screenshot({ path: path.join(dir, `${name}.png`) }),
    close: () => browser.close(),
  };
}

// letters is a line as the page shows it: links by their text, no markup, no list numbers, no punctuation.
function letters(line) {
  return line.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/<[^>]*>/g, '').replace(/^\s*\d+\.\s/, '').replace(/[^\p{L}\p{N}]/gu, '');
}

if (import.meta.url === `file://${process.argv[1]}`) {
  await runAll('page', drive, { start: (endpoint) => ({ url: endpoint.replace('/api/messages', '/dev/'), stop() {} }), without });
}
