#!/usr/bin/env node
// Drives the Playground's page in Chromium, with a screenshot after every step in out/browser/.
//   node run-browser.mjs [scenario.json ...]     BOT_BIN: a built bot; CHROMIUM: the browser (/usr/bin/chromium)
import path from 'node:path';
import { chromium } from 'playwright-core';
import { call, Inbox, textOf } from './playground.mjs';
import { patience, until } from './process.mjs';
import { runAll } from './scenario.mjs';

// Chromium must not try to reach anything but this machine.
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1'];
const names = { personal: 'Personal Chat', group: 'Group Chat', channel: 'My Team - General' };
const mocks = { install: 'Install application', uninstall: 'Uninstall application', botAdded: 'Add application', botRemoved: 'Remove application', userAdded: 'Add user', userRemoved: 'Remove user' };

await runAll('browser', async (client, dir) => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  page.setDefaultTimeout(patience);
  await page.route((url) => !['localhost', '127.0.0.1'].includes(url.hostname), (route) => route.abort());
  const inbox = new Inbox(client.bot.id);
  let held; // what comes while a post is being drawn: the page loses a reply to a post that it does not know yet
  const show = (ws, payload) => {
    try { inbox.take(JSON.parse(String(payload))); } catch { /* not a frame of the conversation */ }
    ws.send(payload);
  };
  await page.routeWebSocket(/_ws_conversation/, (ws) => {
    ws.connectToServer().onMessage((payload) => (held ? held.push([ws, payload]) : show(ws, payload)));
  });
  const button = (name) => page.getByRole('button', { name, exact: true });
  let place;
  // load shows the page without its log panel, which repeats every message.
  const load = async () => {
    await page.goto(client.url);
    const title = page.getByText('Log Panel', { exact: true });
    await title.locator('..').getByRole('button').last().click();
    await title.waitFor({ state: 'hidden' });
  };
  // extension opens a form of the client's menu of message extensions.
  const extension = async (name) => {
    await page.getByRole('button', { name: 'Trigger Message Extension App' }).click();
    await page.getByRole('menuitem', { name }).click();
  };
  return {
    mark: () => inbox.mark(),
    // messages are those that the page shows: what only its server saw does not count.
    async messages(mark) {
      // A channel has no element of its own for a message; chats have, and a list of previews beside it.
      const parts = await page.locator(place === 'channel' ? '#root' : '.fai-OutputCard').allInnerTexts();
      const shown = letters(parts.join('\n'));
      return inbox.since(mark, client.places[place]).filter((message) => textOf(message).split('\n').every((line) => shown.includes(letters(line))));
    },
    async open(name) {
      if (!place) await load();
      place = name;
      await page.getByRole('treeitem', { name: names[name], exact: true }).click();
      await page.getByRole('textbox').first().waitFor();
    },
    async say(text, mention) {
      const box = page.locator('div[role=textbox][contenteditable=true]').first();
      const times = async () => letters(await page.locator('#root').innerText()).split(letters(text)).length;
      const before = await times();
      await box.click();
      if (mention) {
        await page.keyboard.type('@');
        await page.locator('#typeahead-menu [role=menuitem]').filter({ hasText: client.bot.name }).first().click();
        await page.keyboard.type(' ');
      }
      await page.keyboard.type(text);
      held = [];
      await button(place === 'channel' ? 'Post' : 'Send Message').first().click();
      const drawn = await until(async () => !letters(await box.innerText()) && await times() > before);
      for (const [ws, payload] of held) show(ws, payload);
      held = undefined;
      if (!drawn) throw new Error('the page did not draw the post');
    },
    async press(title, fill) {
      for (const [label, value] of Object.entries(fill)) await page.getByLabel(new RegExp(`^${label}( ?\\*)?$`)).last().fill(value);
      await button(title).last().click();
    },
    submit(value) {
      const last = inbox.since(0).at(-1);
      return call(client.url, 'POST', '/_conversation/v1/submit', { conversation: { id: last.postConversationId ?? last.conversation }, replyToId: last.messageId, value, from: { id: client.user.id } });
    },
    async mock(type) {
      await page.locator('#mockActivityMenuButtonText').click();
      await page.locator('.fui-MenuItem').filter({ hasText: new RegExp(`^${mocks[type]}$`) }).click();
      await page.locator('[role=dialog]').getByRole('button', { name: 'Send activity', exact: true }).click();
      await page.locator('[role=dialog]').waitFor({ state: 'detached' });
    },
    async rate(reaction, text) {
      await page.getByRole('button', { name: reaction === 'like' ? 'Like' : 'Dislike', exact: true }).last().click();
      const dialog = page.locator('[role=dialog]');
      await dialog.locator('textarea').fill(text);
      await dialog.getByRole('button', { name: 'Submit' }).click();
      await dialog.getByRole('button', { name: 'Close' }).last().click();
    },
    async search(words, command, once) {
      await extension('Search Command');
      await until(async () => { // the page may open what was open before, just when the click comes
        await page.getByText('Specify Command ID or Parameter').click();
        return page.getByPlaceholder('Command ID').fill(command, { timeout: 2000 }).then(() => true, () => false);
      });
      await page.getByPlaceholder('Enter a search term').fill(words);
      const found = page.locator('[role=group]').filter({ has: page.getByPlaceholder('Enter a search term') }).last();
      const shown = await once(() => found.innerText());
      await found.getByRole('button', { name: 'Close' }).click();
      return shown;
    },
    async action(command, fill, submit, once) {
      await extension('Action Command');
      const dialog = page.locator('[role=dialog]');
      await dialog.locator('input[type=text]').fill(command);
      await dialog.getByRole('button', { name: 'Create', exact: true }).click();
      for (const [label, value] of Object.entries(fill)) await dialog.getByLabel(label).fill(value);
      const before = await page.locator('#root').innerText();
      await dialog.getByRole('button', { name: submit, exact: true }).click();
      await dialog.waitFor({ state: 'detached' });
      return once(async () => (await page.locator('#root').innerText()).replace(before, ''));
    },
    async link(address, once) {
      await extension('Link Unfurling');
      const dialog = page.locator('[role=dialog]');
      await dialog.getByLabel('Enter an URL').fill(address);
      const shown = await once(() => dialog.innerText());
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      return shown;
    },
    shot: (name) => page.screenshot({ path: path.join(dir, `${name}.png`) }),
    close: () => browser.close(),
  };
}, { atOnce: 1, without: ['17-three-people.json'] });

// letters is a line as the page shows it: links by their text, no markup, no list numbers, no punctuation.
function letters(line) {
  return line.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/<[^>]*>/g, '').replace(/^\s*\d+\.\s/, '').replace(/[^\p{L}\p{N}]/gu, '');
}
