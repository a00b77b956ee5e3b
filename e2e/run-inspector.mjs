#!/usr/bin/env node
// Calls the bot at /mcp with the command line of the MCP Inspector, and answers in the chat what it asks there. The bot is restarted between question and answer.
//   node run-inspector.mjs
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { botBinary, startBot } from './bot.mjs';
import { textOf } from './playground.mjs';
import { here, patience, until } from './process.mjs';

const inspector = path.join(here, 'node_modules', '@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js');
const dir = path.join(here, 'out', 'inspector');
fs.rmSync(dir, { recursive: true, force: true });
fs.mkdirSync(dir, { recursive: true });

// The channel keeps what the bot posts.
const said = [];
const channel = http.createServer((request, response) => {
  let body = '';
  request.on('data', (data) => { body += data; }).on('end', () => {
    if (body) said.push(JSON.parse(body));
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ id: String(said.length) }));
  });
});
await new Promise((done) => { channel.listen(0, '127.0.0.1', done); });

const program = await botBinary('e2e/agents');
const start = () => startBot(program, dir, { BOT_DATA_DIR: path.join(dir, 'data') });
let bot = await start();
const count = { passed: 0, failed: 0 };

// post sends an activity of Mia to the bot.
let ids = 0;
const post = (activity) => fetch(bot.endpoint, {
  method: 'POST', headers: { 'content-type': 'application/json' }, signal: AbortSignal.timeout(patience),
  body: JSON.stringify({
    id: String(++ids), channelId: 'msteams', serviceUrl: `http://127.0.0.1:${channel.address().port}/`,
    from: { id: '29:mia', name: 'Mia', aadObjectId: 'mia-in-entra' }, recipient: { id: '28:me', name: 'Agents' },
    conversation: { id: 'a:mia', conversationType: 'personal', tenantId: 'contoso' }, channelData: { tenant: { id: 'contoso' } }, ...activity,
  }),
});

// call runs the Inspector with a method, and returns what it prints. Only PATH and HOME of the environment reach it.
async function call(method, tool, values = {}, token = 'demo') {
  const args = [inspector, '--cli', bot.endpoint.replace('/api/messages', '/mcp'), '--transport', 'http', '--method', method, '--header', `Authorization: Bearer ${token}`];
  if (tool) args.push('--tool-name', tool);
  for (const [name, value] of Object.entries(values)) args.push('--tool-arg', `${name}=${value}`);
  const { PATH } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH, HOME: dir }, timeout: patience });
  return JSON.parse(stdout);
}

async function check(title, run, want) {
  const got = await run().then(JSON.stringify, (err) => `failed: ${err.message} ${err.stdout ?? ''} ${err.stderr ?? ''}`);
  const fine = [want].flat().every((part) => got.includes(part));
  fine ? count.passed++ : count.failed++;
  console.log(`${fine ? 'ok' : 'not ok'} ${title}${fine ? '' : `\n  wanted ${want}, got ${got.slice(0, 1500)}`}`);
  return got;
}

// card waits for a card with these words, and returns its fields and buttons.
async function card(words) {
  let found;
  await until(() => { found = said.findLast((m) => m.attachments && textOf(m).includes(words)); return found; });
  if (!found) throw new Error(`no card says ${words}: ${JSON.stringify(said).slice(-2000)}`);
  const parts = { inputs: [], buttons: [] };
  const walk = (node) => {
    if (!node || typeof node !== 'object') return;
    if (String(node.type).startsWith('Input.')) parts.inputs.push(node.id);
    if (node.type === 'Action.Execute') parts.buttons.push(node);
    Object.values(node).forEach(walk);
  };
  walk(found.attachments);
  return parts;
}

async function press({ inputs, buttons }, title, value) {
  const { verb, data } = buttons.find((b) => b.title === title);
  const filled = Object.fromEntries(inputs.map((id) => [id, value]));
  const answer = await post({ type: 'invoke', name: 'adaptiveCard/action', value: { action: { type: 'Action.Execute', title, verb, data: { ...data, ...filled } } } });
  if (!answer.ok) throw new Error(`the click on ${title} was answered ${answer.status}`);
}

const idIn = (text) => /\\?"id\\?":\s*\\?"([^"\\]+)/.exec(text)?.[1] ?? 'none';

try {
  await post({ type: 'message', text: 'hello' });
  await check('lists the tools', () => call('tools/list'), ['orderCoffee', 'closeKitchen', 'ask_person', 'request_approval', 'get_answer', 'get_approval']);
  await check('refuses a wrong token', () => call('tools/list', '', {}, 'wrong'), 'auth_required');
  await check('calls an action', () => call('tools/call', 'orderCoffee', { kind: 'Espresso' }), 'One Espresso is on its way.');
  await check('hears of a wrong argument', () => call('tools/call', 'orderCoffee', { sort: 'Espresso' }), 'missing required entity kind');
  const question = await check('asks the person', () => call('tools/call', 'ask_person', { question: 'Which colour?' }), 'id');
  const asked = await card('Which colour?');
  await bot.stop();
  bot = await start();
  await press(asked, 'Send', 'Green');
  await check('has the answer after a restart', () => call('tools/call', 'get_answer', { id: idIn(question) }), 'Green');
  const request = await check('calls what a person approves', () => call('tools/call', 'closeKitchen'), 'id');
  await press(await card('May I do this'), 'Approve');
  await check('has what came of it', () => call('tools/call', 'get_answer', { id: idIn(request) }), 'closed');
} catch (err) {
  count.failed++;
  console.log(`not ok ${err.stack}`);
} finally {
  await bot.stop();
  channel.closeAllConnections();
  channel.close();
}
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed ? 1 : 0);
