// What the page of a bot must do beside the scenarios: every view is accessible in both themes and two widths, works without script, and
// shows nothing as something else. Each check gets the address of a bot of its own and a folder, and returns what is wrong, or ''.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { botBinary, startBot } from './bot.mjs';
import { startModel } from './model.mjs';
import { until } from './process.mjs';
import { follow, openPage } from './run-page.mjs';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const views = ['', 'turns', 'activities', 'actions', 'actions/addItem', 'prompts', 'prompts/sequence', 'skills', 'parked', 'numbers', 'evals', 'settings', 'faults', 'help'];
const maxScript = 60_000; // bytes of JavaScript beside the library for cards

const plan = (...commands) => JSON.stringify({ type: 'plan', commands });
const say = (response) => ({ type: 'SAY', response });

async function inBrowser(options, check, rule) {
  const opened = await openPage(undefined, options, rule);
  try {
    return await check(opened.page, opened.faults) || opened.faults.join('; ');
  } finally { await opened.browser.close(); }
}

/** Says something, and returns the path of its turn once that is over. Then it loads the chat anew, whose messages change no more. */
export async function talk(page, url, text, room = 'mia', outcome = 'ok') {
  const chat = `${url}/dev/?room=${room}`;
  await page.goto(chat);
  await page.getByRole('textbox', { name: 'Message' }).fill(text);
  await page.keyboard.press('Enter');
  const row = page.getByRole('region', { name: 'Turns' }).locator('[data-turn]').filter({ hasText: text });
  await row.and(page.locator(`[data-outcome=${outcome}]`)).first().waitFor();
  const turn = await row.first().getByRole('link').first().getAttribute('href');
  await page.goto(chat);
  return turn;
}

/** A bot of its own, whose model gives these answers. */
async function scripted(dir, answers, check) {
  const model = await startModel(answers);
  const bot = await startBot(await botBinary(), dir, { ...model.settings, OPENAI_API_KEY: 'key', BOT_STREAM: 'false' });
  try {
    return await check(bot.endpoint.replace('/api/messages', ''));
  } finally {
    await bot.stop();
    await model.stop();
  }
}

export const pageChecks = {
  // In their own chats, with a kill between two approvals. The folder of the state has a socket, so this name is short.
  'three people approve': async (_, dir) => {
    fs.mkdirSync(path.join(dir, 'page'), { recursive: true });
    const [otto, ada] = ['a42d7b90-15e3-4f6a-8d2c-7e90b3c5f102', 'c9e05d38-62fb-4a17-b38e-10d4f6a8c203']; // ids of people of the page
    const bot = await startBot(await botBinary('examples/expenses'), dir, { EXPENSES_BOARD: `${otto} ${ada}`, EXPENSES_MANAGERS: otto, BOT_DATA_DIR: 'data', BOT_PAGE_KEEP: 'page' });
    const chat = (room) => `${bot.endpoint.replace('/api/messages', '')}/dev/?room=${room}`;
    const { browser, page } = await openPage();
    const messages = page.getByRole('log', { name: 'Messages' });
    const approve = messages.getByRole('button', { name: 'Approve', exact: true });
    const reads = async (room, text) => {
      await page.goto(chat(room));
      await messages.filter({ hasText: text }).waitFor();
    };
    try {
      await page.goto(chat('mia'));
      await page.getByRole('textbox', { name: 'Message' }).fill('claim 620 for the trade fair');
      await page.keyboard.press('Enter');
      await messages.getByRole('button', { name: 'Send', exact: true }).click();
      await reads('otto', 'It needs 2 approvals.');
      await approve.click();
      await reads('mia', 'Otto Oduya approved this. It needs 2 approvals.');
      const kept = path.join(dir, 'page'); // where the page writes once a second what it shows
      await until(() => fs.readdirSync(kept).filter((file) => file.endsWith('.kept.json'))
        .some((file) => fs.readFileSync(path.join(kept, file), 'utf8').includes('Otto Oduya approved this')));
      await bot.kill();
      await reads('ada', 'It needs 2 approvals.');
      await approve.click();
      await reads('mia', '620.00 for the trade fair will be paid');
      await page.screenshot({ path: path.join(dir, 'paid.png') });
      for (const room of ['mia', 'otto', 'ada']) {
        await reads(room, 'Approved by Otto Oduya, Ada Lund');
        if (await approve.count()) return `a card of ${room} still asks`;
      }
      return '';
    } finally {
      await browser.close();
      await bot.stop();
    }
  },
  'a bot that ends is told in every tab': async (_, dir) => {
    const bot = await startBot(await botBinary(), dir);
    const chat = `${bot.endpoint.replace('/api/messages', '')}/dev/`;
    const { browser, context, page } = await openPage(chat);
    try {
      const other = await context.newPage();
      await other.goto(`${chat}turns`);
      await page.getByRole('textbox', { name: 'Message' }).fill('half a sentence');
      await bot.stop();
      for (const tab of [page, other]) await tab.getByRole('status').filter({ hasText: 'The bot has ended' }).waitFor();
      const off = await page.locator('#say').evaluate((form) => [form.querySelector('textarea').readOnly, form.querySelector('button').disabled, form.querySelector('textarea').value].join());
      return off === 'true,true,half a sentence' ? '' : `the composer is ${off}`;
    } finally { await browser.close(); }
  },

  'the chat is there at once': (url) => inBrowser({}, async (page) => {
    await page.goto(url);
    if (page.url() !== `${url}/dev/`) return `it is at ${page.url()}`;
    await page.getByRole('textbox', { name: 'Message' }).and(page.locator(':focus')).waitFor();
    const script = await page.evaluate(() => performance.getEntriesByType('resource')
      .reduce((sum, one) => (one.name.endsWith('.js') && !one.name.includes('adaptivecards') ? sum + one.decodedBodySize : sum), 0));
    const turn = await talk(page, url, 'add milk to groceries');
    await page.goto(url + turn);
    const headings = (await page.getByRole('heading', { level: 2 }).allInnerTexts()).map((text) => text.split('\n')[0].trim());
    const want = 'Received Plan Prompt Answer Sent Time Journal Log State';
    if (headings.join(' ') !== want) return `the headings of a turn are ${headings.join(' ')}`;
    return script > 0 && script < maxScript ? '' : `${script} bytes of script`;
  }),

  'a group hears only what mentions the bot': (url) => inBrowser({}, async (page) => {
    await page.goto(`${url}/dev/`);
    const lunch = page.getByRole('region', { name: 'Conversations' }).getByRole('link', { name: 'Lunch', exact: true });
    await follow(page, lunch.click(), lunch.and(page.locator('[aria-current]')));
    const box = page.getByRole('textbox', { name: 'Message' });
    const people = page.getByRole('combobox', { name: 'Speak as' });
    await people.selectOption({ label: (await people.locator('option').allInnerTexts()).find((name) => name.startsWith('Otto')) });
    await box.fill('what is on my lists?');
    await page.keyboard.press('Enter');
    await page.getByRole('log', { name: 'Messages' }).getByText('not delivered', { exact: false }).waitFor();
    if (await page.locator('[data-turn]').count() !== 0) return 'it made a turn';
    await box.click();
    await page.keyboard.type('@');
    await page.getByRole('listbox', { name: 'Mention' }).getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    await page.keyboard.type('add milk to groceries');
    await page.keyboard.press('Enter');
    const row = page.getByRole('region', { name: 'Turns' }).locator('[data-turn][data-outcome=ok]');
    await row.waitFor();
    const record = await (await page.request.get(`${url}/dev/turns/${await row.getAttribute('data-turn')}.json`)).json();
    const { from } = record.received.activity;
    return from.name.startsWith('Otto') && /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(from.aadObjectId) ? '' : `the activity is from ${JSON.stringify(from)}`;
  }),

  'the composer stays in view': (url) => inBrowser({}, async (page) => {
    await talk(page, url, 'add milk to groceries');
    const box = page.getByRole('textbox', { name: 'Message' });
    for (const [width, height] of [[1280, 600], [320, 700]]) {
      await page.setViewportSize({ width, height });
      await page.getByText('More', { exact: true }).click();
      const at = await box.boundingBox();
      if (at.y + at.height > height) return `at ${width} px it ends at ${at.y + at.height}`;
      await page.keyboard.press('Escape');
      if (await page.locator('.menu[open]').count() || !await page.locator('.menu summary').evaluate((el) => el === document.activeElement)) return 'Escape does not lead back to the button of the menu';
    }
    return '';
  }),

  'a small window has room for messages and for every tab': (url) => inBrowser({}, async (page) => {
    for (const text of ['add milk to groceries', 'add tea to groceries', 'what is on my lists?']) await talk(page, url, text);
    for (const [width, height] of [[780, 493], [320, 640]]) {
      await page.setViewportSize({ width, height });
      await page.goto(`${url}/dev/`);
      const room = await page.evaluate(() => document.querySelector('.say').getBoundingClientRect().top - document.getElementById('messages').getBoundingClientRect().top);
      const tab = await page.getByRole('link', { name: 'Help', exact: true }).boundingBox();
      if (room < 200 || tab.x + tab.width > width) return `at ${width} px ${room} px are for messages, and the last tab ends at ${tab.x + tab.width}`;
    }
    return '';
  }),

  'a turn that is chosen comes into view, and is marked': (url) => inBrowser({ viewport: { width: 1280, height: 500 } }, async (page) => {
    for (let i = 0; i < 12; i++) await talk(page, url, `add item ${i} to groceries`);
    const link = page.getByRole('region', { name: 'Turns' }).getByRole('link', { name: 'add item 11 to groceries' });
    await link.click();
    await link.and(page.locator('[aria-current]')).waitFor();
    const at = await page.locator('.sum').boundingBox();
    await page.locator('.parts summary').filter({ hasText: 'Plan' }).click();
    const scrolls = await page.evaluate(() => document.documentElement.scrollHeight > innerHeight);
    if (scrolls) return 'the whole page scrolls, and not only the turn';
    return at.y >= 0 && at.y < 250 ? '' : `the turn is at ${at.y}`;
  }),

  'what is not sent stays with its conversation': (url) => inBrowser({}, async (page) => {
    const box = page.getByRole('textbox', { name: 'Message' });
    await page.goto(`${url}/dev/?room=mia`);
    await box.fill('half a sentence');
    await page.goto(`${url}/dev/?room=otto`);
    if (await box.inputValue()) return 'it is in another conversation';
    await page.goto(`${url}/dev/?room=mia`);
    if (await box.inputValue() !== 'half a sentence') return `it came back as ${await box.inputValue()}`;
    await talk(page, url, 'add milk to groceries');
    return await box.inputValue();
  }),

  'the focus stays on the turn that is chosen': (url) => inBrowser({}, async (page) => {
    await talk(page, url, 'add milk to groceries');
    const link = page.getByRole('region', { name: 'Turns' }).getByRole('link', { name: 'add milk to groceries' });
    await link.focus();
    await page.keyboard.press('Enter');
    await link.and(page.locator('[aria-current]')).and(page.locator(':focus')).waitFor();
    return '';
  }),

  'a message is shown before the bot has it': (url) => inBrowser({}, async (page) => {
    await page.goto(`${url}/dev/`);
    const said = page.getByRole('log', { name: 'Messages' }).locator('.theirs');
    const say = async (text) => {
      await page.getByRole('textbox', { name: 'Message' }).fill(text);
      await page.keyboard.press('Enter');
      await said.filter({ hasText: text }).waitFor();
    };
    await say('add milk to groceries');
    await page.locator('[data-turn][data-outcome=ok]').waitFor();
    await until(async () => await said.count() === 1);
    if (await said.and(page.locator('[data-from=mia]')).count() !== 1) return `${await said.count()} messages for one`;
    await page.route('**/dev/chat/say', () => {}); // as a bot that crashes
    await say('add tea to groceries');
    return '';
  }),

  'a turn says what became of each command': (_, dir) => scripted(dir, [plan(
    { type: 'DO', action: 'addItem', entities: { list: 'x', item: 'milk' }, saveAs: 'ADDED' }, say('Done: $ADDED'), say('Bye.'),
  )], (url) => inBrowser({}, async (page) => {
    await page.goto(`${url}${await talk(page, url, 'milk')}#plan`);
    const rows = await page.getByRole('region', { name: 'Plan' }).getByRole('row').allInnerTexts();
    if (!rows[1].includes('ok') || !rows[2].includes('Added milk') || !rows[3].includes('sent')) return `the plan says ${rows.join(' | ')}`;
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    return await page.locator('.sum').evaluate((el) => el.getBoundingClientRect().y) === 0 || await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight + 60) ? '' : 'its head does not stay';
  })),

  'a refused answer is shown beside the good one': (_, dir) => scripted(dir, [
    plan({ type: 'DO', action: 'addItm', entities: { list: 'groceries', item: 'milk' } }, say('Done.')),
    plan({ type: 'DO', action: 'addItem', entities: { list: 'groceries', item: 'milk' } }, say('Added.')),
  ], (url) => inBrowser({}, async (page) => {
    const record = await (await page.request.get(`${url}${await talk(page, url, 'milk, please')}.json`)).json();
    if (record.modelCalls !== 2 || record.rounds.length !== 2) return `${record.modelCalls} model calls`;
    if (!record.rounds[0].refused.detail.includes('addItm')) return `it was refused because of ${record.rounds[0].refused.detail}`;
    if (record.commands.map((one) => one.action).join() !== 'addItem') return 'something of the first plan ran';
    const changed = record.changes.filter((one) => one.path.startsWith('user.lists.'));
    return changed.length > 0 && changed.every((one) => one.by === 'addItem') ? '' : `the state changed so: ${JSON.stringify(record.changes)}`;
  })),

  'what a model writes is shown as text': (_, dir) => scripted(dir, [plan(
    { type: 'DO', action: 'addItem', entities: { list: 'x', item: '<img src=x onerror=alert(1)>' } },
    say('<img src=x onerror=alert(1)> [press](javascript:alert(1)) ![p](https://example.invalid/?q=1) <script>alert(1)</script>'),
  ), { call: 'a\u202Eb', arguments: {} }], (url) => inBrowser({}, async (page) => {
    let dialog = '';
    page.on('dialog', (box) => { dialog = box.message(); return box.dismiss(); });
    const turn = await talk(page, url, 'hello');
    for (const where of [`${url}/dev/`, url + turn, `${url}/dev/turns`, `${url}/dev/actions/addItem`]) {
      await page.goto(where);
      if (await page.locator('main img, main script, a[href^="javascript:"]').count() !== 0) return `${where} has what the model wrote`;
    }
    await page.goto(`${url}/dev/`);
    if (!(await page.getByRole('log', { name: 'Messages' }).innerText()).includes('onerror')) return 'the text cannot be read';
    await page.goto(`${url}${await talk(page, url, 'call it', 'mia', 'failed')}#answer`);
    const answer = await page.getByRole('region', { name: 'Answer' }).innerText();
    if (answer.includes('\u202E') || !answer.includes('a⟦U+202E⟧b')) return `of the name of a call it shows ${JSON.stringify(answer)}`;
    return dialog;
  })),

  'the log line of a failure leads to its turn': (_, dir) => scripted(dir, ['{', '{', '{'], (url) => inBrowser({}, async (page) => {
    const turn = await talk(page, url, 'fail', 'mia', 'failed');
    let line;
    await until(() => { line = fs.readFileSync(path.join(dir, 'bot.log'), 'utf8').split('\n').find((one) => one.includes('"level":"error"')); return line; });
    return line?.includes(`"${url}${turn}"`) ? '' : `the log says ${line}`;
  })),

  'the list of turns is live and has a filter': (url) => inBrowser({}, async (page) => {
    const list = await page.context().newPage();
    await list.goto(`${url}/dev/turns?q=soap`);
    await talk(page, url, 'add milk to groceries');
    await talk(page, url, 'add soap to groceries');
    await list.locator('[data-turn]').filter({ hasText: 'soap' }).waitFor();
    if (await list.locator('[data-turn]').count() !== 1) return 'it shows what the filter leaves out';
    await list.waitForFunction(() => document.documentElement.dataset.live === 'yes');
    await list.getByLabel('Filter').fill('groceries');
    for (const i of [1, 0]) await list.getByRole('checkbox').nth(i).check();
    await list.getByRole('button', { name: 'Compare' }).click();
    await list.getByRole('heading', { name: 'Compare turns' }).waitFor();
    await list.goto(`${url}/dev/actions`);
    await list.keyboard.press('/');
    await list.waitForURL('**/dev/turns');
    return await list.getByLabel('Filter').evaluate((box) => box === document.activeElement) ? '' : 'the key / does not lead to the filter';
  }),

  'a long list is there whole': (url) => inBrowser({}, async (page) => {
    for (let i = 0; i < 33; i++) {
      await page.request.post(`${url}/dev/chat/say`, { form: { room: 'mia', text: `add item ${i} to groceries` } });
    }
    await page.goto(`${url}/dev/turns?turns=all`);
    await page.locator('[data-turn]').nth(32).waitFor();
    const rows = await page.locator('[data-turn]').evaluateAll((all) => all.map((one) => one.dataset.turn));
    if (new Set(rows).size !== 33) return `${new Set(rows).size} of 33 turns are there`;
    await page.getByRole('button', { name: `Pin turn ${rows[32]}` }).click();
    await page.getByRole('button', { name: `Unpin turn ${rows[32]}` }).waitFor();
    return '';
  }),

  'the message box completes and edits': (url) => inBrowser({}, async (page) => {
    await talk(page, url, 'add milk to groceries');
    const box = page.getByRole('textbox', { name: 'Message' });
    await box.click();
    await page.keyboard.type('/my');
    const options = page.getByRole('listbox', { name: 'Mention' }).getByRole('option');
    await options.first().waitFor();
    const offered = (await options.allInnerTexts()).join(' ');
    if (offered !== '/mydata') return `it offers ${offered}`;
    await page.keyboard.press('Enter');
    if (await box.inputValue() !== '/mydata ') return `it has ${await box.inputValue()}`;
    await box.fill('');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('End');
    await page.keyboard.type(' and tea');
    await page.keyboard.press('Enter');
    await page.getByRole('log', { name: 'Messages' }).locator('[data-from=mia]').filter({ hasText: 'edited' }).getByText('add milk to groceries and tea').waitFor();
    return '';
  }),

  'the keys lead to the views': (url) => inBrowser({}, async (page) => {
    await page.clock.setFixedTime(new Date()); // between two keys no time passes
    await page.goto(`${url}/dev/help`);
    for (const [key, view] of Object.entries({ t: 'turns', i: 'activities', a: 'actions', p: 'prompts', s: 'skills', k: 'parked', n: 'numbers', e: 'evals', c: '' })) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForURL(`${url}/dev/${view}`);
    }
    const more = page.getByText('More', { exact: true });
    await more.click();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Escape');
    if (await page.locator('.menu[open]').count() || !await more.evaluate((el) => el === document.activeElement)) return 'Esc does not close the menu';
    return '';
  }),

  'a card loads nothing and hides nothing': (url) => inBrowser({}, async (page) => {
    await page.goto(`${url}/dev/`);
    const buttons = ['What is on my lists?', 'Create a grocery list', 'Remind me in 10 minutes to drink water.'].map((title) => ({ type: 'Action.Submit', title }));
    await page.getByRole('textbox', { name: 'Message' }).fill(JSON.stringify({
      type: 'AdaptiveCard', version: '1.5', backgroundImage: 'https://example.invalid/b',
      body: [
        { type: 'Image', url: 'https://example.invalid/?q=1', altText: 'a cat' },
        { type: 'Input.ChoiceSet', id: 'c', style: 'expanded', choices: [{ title: 'a\u202Eb', value: 'a\u202Eb' }], value: 'a\u202Eb' },
      ],
      actions: [{ type: 'Action.OpenUrl', title: 'press', url: 'javascript:alert(1)' }, ...buttons, { type: 'Action.Submit', title: '\u202Egood', iconUrl: 'https://example.invalid/i', data: { x: '\u202E' } }],
    }));
    await page.keyboard.press('Enter');
    const card = page.locator('.message .card.drawn').first();
    await card.waitFor();
    const shown = await card.innerText();
    if (!shown.includes('[picture: a cat, from example.invalid]')) return `of a picture it shows ${shown}`;
    if (shown.includes('\u202E') || !shown.includes('⟦U+202E⟧good')) return `of hidden characters it shows ${JSON.stringify(shown)}`;
    if (!shown.includes('The button “press” was refused')) return 'it does not say that a button was refused';
    const wide = await card.evaluate((el) => [...el.querySelectorAll('button')]
      .filter((one) => one.getBoundingClientRect().right > el.getBoundingClientRect().right || one.scrollWidth > one.clientWidth).map((one) => one.innerText));
    if (wide.length) return `these buttons are cut off: ${wide.join(', ')}`;
    await card.getByRole('button', { name: 'good' }).click();
    let clicked;
    await until(async () => {
      const { turns } = await (await page.request.get(`${url}/dev/turns.json`)).json();
      clicked = turns[0] && (await (await page.request.get(`${url}/dev/turns/${turns[0].id}.json`)).json()).received.activity.value;
      return clicked;
    });
    return clicked?.x === '\u202E' && clicked.c === 'a\u202Eb' ? '' : `the click had ${JSON.stringify(clicked)}`;
  }),

  'a delivery that comes again is a duplicate': (url) => inBrowser({}, async (page) => {
    await talk(page, url, 'add milk to groceries');
    const replies = await page.locator('[data-from=bot]').count();
    await page.getByText('More', { exact: true }).click();
    await page.getByRole('button', { name: 'Deliver again' }).click();
    await page.locator('[data-turn][data-outcome=duplicate]').waitFor();
    return await page.locator('[data-from=bot]').count() === replies && await page.locator('[data-turn][data-outcome=ok]').count() === 1 ? '' : 'it was answered again';
  }),

  'what went wrong is said first': (url, dir) => scripted(dir, [plan({ type: 'DO', action: 'fly', entities: {} }), plan({ type: 'DO', action: 'fly', entities: {} }), plan(say('I cannot fly.'))], (own) => inBrowser({}, async (page) => {
    const turn = await talk(page, own, 'fly to the moon');
    const row = page.getByRole('region', { name: 'Turns' }).locator('[data-turn]').filter({ hasText: 'fly to the moon' });
    const wrong = 'The answer was no plan that can run';
    const chip = row.getByText('repaired', { exact: true });
    if (!(await chip.getAttribute('title')).includes(wrong)) return `the list says ${await row.innerText()}`;
    await page.goto(own + turn);
    const said = page.getByRole('list', { name: 'What went wrong' }).getByRole('listitem');
    const text = (await said.allInnerTexts()).join(' | ');
    if (await said.count() !== 1 || !text.includes(wrong) || !text.includes('×2')) return `the turn says ${text}`;
    await said.getByRole('link').click();
    await page.waitForURL('**#plan');
    const open = await page.locator('.parts > section > details[open]').count();
    return open === 1 ? '' : `${open} parts are open`;
  })),

  'nothing is lost when the stream is cut': async (url) => {
    const relay = await cutting(url);
    try {
      return await inBrowser({}, async (page, faults) => {
        await page.goto(`${relay.url}/dev/`);
        const box = page.getByRole('textbox', { name: 'Message' });
        for (let i = 0; i < 10; i++) {
          await box.fill(`add item ${i} to groceries`);
          const posted = page.waitForResponse((answer) => answer.request().method() === 'POST'); // a browser may send again what is cut before its answer
          await page.keyboard.press('Enter');
          await posted;
          relay.cut();
        }
        await page.locator('[data-turn][data-outcome=ok]').nth(9).waitFor();
        const rows = await page.locator('[data-turn]:not(.sum)').evaluateAll((all) => all.map((one) => one.dataset.turn));
        faults.splice(0, faults.length, ...faults.filter((one) => !one.includes('net::ERR_') && !one.includes('Failed to fetch')));
        return new Set(rows).size === 10 && rows.length === 10 ? '' : `${rows.length} rows of ${new Set(rows).size} turns`;
      }, relay.rule);
    } finally { relay.close(); }
  },

  'eight tabs open at once': (url) => inBrowser({}, async (page) => {
    for (let i = 0; i < 7; i++) await (await page.context().newPage()).goto(`${url}/dev/`);
    await page.goto(`${url}/dev/`);
    await page.getByRole('textbox', { name: 'Message' }).waitFor(); // a browser opens six connections: without care it would never load
    return '';
  }),

  'every view is accessible': async (url, dir) => {
    const wrong = [];
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [1280, 320]) {
        wrong.push(await inBrowser({ colorScheme, viewport: { width, height: 800 } }, async (page, faults) => {
          const found = [];
          const turn = await talk(page, url, `add milk to groceries ${colorScheme} ${width}`);
          for (const view of [...views, turn.slice('/dev/'.length), `${turn.slice('/dev/'.length)}/what-if`]) {
            const answer = await page.goto(`${url}/dev/${view}`);
            if (answer.status() !== 200) found.push(`${view}: ${answer.status()}`);
            const results = await page.evaluate(async (source) => {
              globalThis.module = undefined;
              if (!globalThis.axe) (new globalThis.Function(source))();
              return (await globalThis.axe.run()).violations.map((one) => ({ id: one.id, impact: one.impact, where: one.nodes.map((node) => node.target.join(' ')).slice(0, 3) }));
            }, axe).catch((err) => [{ id: String(err), impact: 'serious', where: [] }]);
            for (const one of results) if (['serious', 'critical'].includes(one.impact)) found.push(`${view} ${colorScheme} ${width}: ${one.id} at ${one.where.join(', ')}`);
            if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found.push(`${view}: wider than ${width}`);
            await page.screenshot({ path: path.join(dir, `${view.replaceAll('/', '-') || 'chat'}-${colorScheme}-${width}.png`) });
          }
          faults.splice(0, faults.length, ...faults.filter((one) => !one.includes('axe')));
          return found.join('; ');
        }));
      }
    }
    return wrong.filter(Boolean).join('; ');
  },

  'it can be read without script': (url) => inBrowser({ javaScriptEnabled: false }, async (page) => {
    await page.goto(`${url}/dev/`);
    await page.getByRole('textbox', { name: 'Message' }).fill('add milk to groceries');
    await follow(page, page.getByRole('button', { name: 'Send' }).click(), page.locator('[data-from=mia]'));
    await until(async () => { await page.goto(`${url}/dev/`); return page.locator('[data-turn][data-outcome=ok]').count(); });
    await page.locator('[data-turn]').first().getByRole('link').first().click();
    await page.waitForURL('**/dev/turns/*');
    if (!(await page.getByRole('main').innerText()).includes('addItem')) return 'the turn cannot be read';
    for (const view of views) {
      const answer = await page.goto(`${url}/dev/${view}`);
      if (answer.status() !== 200 || (await page.getByRole('main').innerText()).trim().length < 20) return `${view} cannot be read`;
    }
    await page.goto(`${url}/dev/actions/addItem`);
    await page.getByLabel('list', { exact: false }).first().fill('Home');
    await page.getByLabel('item', { exact: false }).first().fill('soap');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('main').filter({ hasText: 'soap' }).waitFor(); // which is not there before
    return '';
  }),
};

/** A relay in front of a server that can cut what is open. */
async function cutting(url) {
  const to = new URL(url);
  const open = new Set();
  const relay = net.createServer((from) => {
    const there = net.connect(Number(to.port), to.hostname);
    open.add(from);
    from.on('close', () => { open.delete(from); there.destroy(); }).on('error', () => {});
    there.on('close', () => from.destroy()).on('error', () => {});
    from.pipe(there).pipe(from);
  });
  await new Promise((done, fail) => { relay.once('error', fail).listen(0, '127.0.0.1', done); });
  return {
    // localhost:PORT of the bot leads to the relay, so the bot sees the name that it knows.
    rule: `MAP localhost:${to.port} 127.0.0.1:${relay.address().port}`,
    url: `http://localhost:${to.port}`,
    cut: () => open.forEach((one) => one.destroy()),
    close: () => { relay.close(); open.forEach((one) => one.destroy()); },
  };
}
