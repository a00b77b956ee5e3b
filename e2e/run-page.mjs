#!/usr/bin/env node
// Plays the scenarios on the bot's own page in Chromium, with a screenshot after every step in out/page/.
//   node run-page.mjs [scenario.json ...]     BOT_BIN: a built bot; CHROMIUM: the browser (/usr/bin/chromium)
// Whatever the page would load from elsewhere, each error on its console and each violation of its policy fails the step.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { botBinary } from './bot.mjs';
import { pageChecks, talk } from './page-checks.mjs';
import { textOf } from './playground.mjs';
import { patience } from './process.mjs';
import { runAll } from './scenario.mjs';

const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const hosts = '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1';
const rooms = { personal: 'Mia Meyer', group: 'Lunch', channel: '# General' };
const events = { install: 'Install', uninstall: 'Uninstall', botAdded: 'Add the bot', botRemoved: 'Remove the bot', userAdded: 'Add a person', userRemoved: 'Remove a person' };
// The page has no message extensions, and no buttons of another person.
const without = ['13-teams.json', '17-three-people.json'];

/** Opens a page that notes what must not happen. rule is one more rule of where names lead to. */
export async function openPage(url, options = {}, rule = '') {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: rule ? [...args, `${hosts},${rule}`] : [...args, hosts] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const faults = [];
  await context.route((to) => !['localhost', '127.0.0.1'].includes(to.hostname), (route) => { faults.push(`it asked for ${route.request().url()}`); return route.abort(); });
  await context.exposeBinding('violated', (_, what) => faults.push(what));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => globalThis.violated(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on('console', (line) => { if (line.type() === 'error') faults.push(`console: ${line.text()}`); });
  page.on('pageerror', (err) => faults.push(`error: ${err.message}`));
  if (url) await page.goto(url);
  return { browser, context, page, faults };
}

async function drive(client, dir) {
  const { browser, context, page, faults } = await openPage();
  const frames = []; // ids of the bot's messages, new and changed
  const known = new Map();
  await context.exposeBinding('seen', (_, id, is) => {
    if (known.get(id) !== is) frames.push(id);
    known.set(id, is);
  });
  await context.addInitScript(() => {
    const look = () => document.querySelectorAll('[data-from=bot]').forEach((el) => globalThis.seen(el.dataset.message, el.dataset.is));
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
    addEventListener('load', look);
  });
  const opened = new Set();
  const clean = () => { if (faults.length) throw new Error(faults.splice(0).join('; ')); };
  const last = () => page.locator('[data-from=bot]').last();
  const event = async (name) => {
    await page.locator('.menu').evaluate((menu) => { menu.open = true; });
    await page.getByRole('button', { name, exact: true }).click();
  };
  return {
    mark: () => frames.length,
    // messages are those that the page shows.
    async messages(mark) {
      clean();
      const shown = letters(await page.getByRole('log', { name: 'Messages' }).innerText());
      const { messages } = await (await page.request.get(page.url().replace('/dev/', '/dev/.json'))).json();
      const all = messages.filter(({ id, activity }) => activity && frames.slice(mark).includes(id))
        .map(({ id, activity }) => ({ ...activity, id, aiEntity: JSON.stringify(activity.entities ?? []).includes('AIGeneratedContent') }));
      return all.filter((message) => textOf(message).split('\n').every((line) => shown.includes(letters(line))));
    },
    async open(name) {
      if (page.url() === 'about:blank') await page.goto(client.url);
      const room = page.getByRole('region', { name: 'Conversations' }).getByRole('link', { name: rooms[name], exact: true });
      if (!(await room.getAttribute('aria-current'))) await follow(page, room.click(), room.and(page.locator('[aria-current]')));
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
      await last().locator('.acts details', { hasText: 'Rate' }).evaluate((acts) => { acts.open = true; });
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

/** Does what leads to another page, and waits until that page's scripts listen: before it, Enter in a text box is a line break. */
export async function follow(page, act, there) {
  await act;
  await there.waitFor();
  await page.waitForLoadState();
}

/** Opens a page and returns what a check says, or what must not have happened. */
async function checking(dir, check) {
  const { browser, page, faults } = await openPage();
  try {
    const fault = await check(page);
    await page.screenshot({ path: path.join(dir, 'end.png'), fullPage: true });
    return fault || faults.filter((one) => !one.includes('409')).join('; '); // the refusal that a check asks for
  } finally { await browser.close(); }
}

const textsOf = async (page, url) => (await (await page.request.get(url)).text());

// What only the page can do.
const checks = {
  'a what-if runs nothing': (url, dir) => checking(dir, async (page) => {
    const turn = await talk(page, url, 'add milk to groceries');
    const before = await textsOf(page, `${url}/dev/turns.json`) + await textsOf(page, `${url}/dev/parts/messages`) + await textsOf(page, `${url}${turn}.json`);
    await page.goto(url + turn);
    await follow(page, page.keyboard.press('r'), page.getByRole('heading', { name: 'What if', level: 1 }));
    if (!(await page.locator('[data-cost]').innerText()).includes('costs nothing')) return 'it does not say what a run costs';
    await page.getByLabel('Text').fill('delete the list groceries');
    await page.getByRole('button', { name: 'Run' }).click();
    const plans = page.getByRole('region', { name: 'Both plans' });
    await plans.waitFor();
    await page.screenshot({ path: path.join(dir, 'both.png'), fullPage: true });
    if (!(await plans.getByRole('region', { name: 'Recorded' }).innerText()).includes('addItem')) return 'the recorded plan is not there';
    if (!(await plans.getByRole('region', { name: 'New' }).innerText()).includes('deleteList')) return 'the new plan is not there';
    const would = await page.locator('[data-would=deleteList]').innerText();
    if (!would.includes('would run') || !would.includes('needs approval')) return `of deleteList it says ${would}`;
    const after = await textsOf(page, `${url}/dev/turns.json`) + await textsOf(page, `${url}/dev/parts/messages`) + await textsOf(page, `${url}${turn}.json`);
    if (after !== before) return 'turns, messages or state are not as before';
    await page.setViewportSize({ width: 320, height: 700 });
    if (await page.evaluate(() => document.documentElement.scrollWidth > 320)) return 'it does not fit into 320 px';
    return '';
  }),
  'a conversation goes on elsewhere': (url, dir) => checking(dir, async (page) => {
    const turn = await talk(page, url, 'add milk to groceries');
    await page.goto(url + turn);
    await follow(page, page.keyboard.press('f'), page.getByRole('link', { name: 'Mia Meyer (copy 1)', exact: true }).and(page.locator('[aria-current]')));
    await page.getByRole('textbox', { name: 'Message' }).fill('what is on my lists?');
    await page.keyboard.press('Enter');
    await page.locator('[data-from=bot]').filter({ hasText: 'groceries' }).nth(1).waitFor();
    return '';
  }),
  'a saved test passes': (url, dir) => checking(dir, async (page) => {
    await talk(page, url, 'add milk to groceries');
    await page.goto(url + await talk(page, url, 'what is on my lists?'));
    await follow(page, page.keyboard.press('s'), page.getByRole('heading', { name: 'Save as test', level: 1 }));
    for (const box of await page.getByRole('checkbox').all()) await box.check();
    await page.getByRole('button', { name: 'Show' }).click();
    await page.locator('[data-yaml]').filter({ hasText: 'add milk' }).waitFor();
    const save = async () => {
      await page.getByLabel('Name').fill('two-turns.yaml');
      await page.getByRole('button', { name: 'Save' }).click();
    };
    await save();
    await page.getByRole('status').filter({ hasText: 'bottest run' }).waitFor();
    await page.screenshot({ path: path.join(dir, 'saved.png'), fullPage: true });
    await page.setViewportSize({ width: 320, height: 700 });
    if (await page.evaluate(() => document.documentElement.scrollWidth > 320)) return 'it does not fit into 320 px';
    const file = path.join(dir, 'scenarios', 'two-turns.yaml');
    const text = fs.readFileSync(file, 'utf8');
    const played = await promisify(execFile)(await botBinary('cmd/bottest'), ['run', file], { env: { PATH: process.env.PATH, HOME: process.env.HOME } }).catch((err) => err);
    if (played.code || !played.stdout.includes('1 passed, 0 failed')) return `bottest says ${played.stdout}${played.stderr}`;
    const answered = page.waitForResponse((answer) => answer.request().method() === 'POST');
    await save();
    if ((await answered).status() !== 409 || fs.readFileSync(file, 'utf8') !== text) return 'it was written over';
    return '';
  }),
};

if (import.meta.url === `file://${process.argv[1]}`) {
  await runAll('page', drive, { start: (endpoint) => ({ url: endpoint.replace('/api/messages', '/dev/'), stop() {} }), without, checks: { ...checks, ...pageChecks } });
}
