// Microsoft's Agents Playground: its process, and the HTTP and WebSocket API that its page uses.
import path from 'node:path';
import WebSocket from 'ws';
import { freePort, here, patience, start, until } from './process.mjs';

const cli = path.join(here, 'node_modules', '@microsoft', 'm365agentsplayground', 'cli.js');

// startPlayground runs the client on a free port, pointed at a bot, and reads its ids.
export async function startPlayground(endpoint, dir) {
  const args = [cli, 'start', '-e', endpoint, '-c', 'msteams', '-p', String(await freePort()), '--disable-telemetry'];
  const env = { ...process.env, TEAMSAPPTESTER_BROWSER: 'none', APPLICATION_INSIGHTS_NO_STATSBEAT: '1', M365_AGENTS_PLAYGROUND_LOGFILE: path.join(dir, 'playground.log') };
  const client = start(process.execPath, args, { cwd: dir, log: path.join(dir, 'playground.out'), env });
  const port = () => /Listening on (\d+)/.exec(client.output())?.[1]; // another one when ours was taken meanwhile
  await until(() => port() || client.over());
  if (!port()) {
    await client.stop(0);
    throw new Error(`the playground did not start: ${client.output().slice(-2000)}`);
  }
  const url = `http://localhost:${port()}`;
  const { config } = await call(url, 'GET', '/_internal/v1/testConfig');
  return {
    url, bot: config.bot, user: config.currentUser, users: config.users,
    places: { personal: config.personalChat.id, group: config.groupChats[0].id, channel: config.teams[0].channels[0].id },
    stop: () => client.stop(3_000),
  };
}

// call sends one request to the client's own API and returns the decoded answer.
export async function call(url, method, route, body) {
  const answer = await fetch(url + route, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body), signal: AbortSignal.timeout(patience) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text.slice(0, 300)}`);
  try { return JSON.parse(text); } catch { return text; }
}

// listen hands every frame of the conversation stream to take; the client buffers until somebody listens.
export const listen = (url, take) => new Promise((done, fail) => {
  const ws = new WebSocket(`${url.replace('http', 'ws')}/_ws_conversation/v1/conversations/stream`);
  ws.once('open', () => done(ws)).once('error', fail).on('message', (data) => take(JSON.parse(String(data))));
});

// Inbox keeps what the bot said, by conversation: a later frame of a message replaces the earlier one.
export class Inbox {
  #frames = [];
  constructor(botId) { this.botId = botId; }

  take(frame) { if (frame.message?.from?.id === this.botId) this.#frames.push(frame); }

  mark() { return this.#frames.length; }

  // since returns the messages that came or changed after a mark, of one place (its threads included) or of all.
  since(mark, place = '') {
    const byId = new Map();
    for (const { actionConversationId, message } of this.#frames.slice(mark)) byId.set(message.messageId, { ...message, conversation: actionConversationId });
    return [...byId.values()].filter((message) => !place || message.conversation.split(';')[0] === place);
  }
}

// textOf is what a person reads in a message: its text, and the texts of its cards.
export function textOf(message) {
  const found = message.text ? [message.text] : [];
  const walk = (node) => {
    if (Array.isArray(node)) node.forEach(walk);
    else if (node && typeof node === 'object') {
      for (const [key, value] of Object.entries(node)) {
        if (key === 'selectAction' || key === 'choices') continue; // a title for screen readers, and what is folded away
        if (typeof value !== 'string') walk(value);
        else if (['text', 'title', 'subtitle', 'label'].includes(key)) found.push(value);
      }
    }
  };
  for (const attachment of message.attachments ?? []) walk(attachment.content);
  return found.join('\n').trim();
}
