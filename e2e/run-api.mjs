#!/usr/bin/env node
// Talks to the bot through the Playground's server: it builds the activities and checks what the bot posts; only its page is left out.
//   node run-api.mjs [scenario.json ...]     BOT_BIN: a built bot, else cmd/bot is built
import fs from 'node:fs';
import path from 'node:path';
import { call, Inbox, listen } from './playground.mjs';
import { runAll } from './scenario.mjs';

await runAll('api', async (client, dir) => {
  const { url, bot, user, places } = client;
  const inbox = new Inbox(bot.id);
  const frames = [];
  const ws = await listen(url, (frame) => { frames.push(frame); inbox.take(frame); });
  const post = (route, body) => call(url, 'POST', route, body);
  let place = places.personal;
  const last = () => inbox.since(0).at(-1) ?? { messageId: '0', conversation: place };
  const answerCard = (message, value) => post('/_conversation/v1/submit', { conversation: { id: message.postConversationId ?? message.conversation }, replyToId: message.messageId, value, from: { id: user.id } });
  return {
    mark: () => inbox.mark(),
    messages: (mark) => inbox.since(mark, place),
    // open does what the page does when a conversation is first shown.
    async open(name) {
      place = places[name];
      await post(`/_debug/conversation/${encodeURIComponent(place)}/installation`, {});
    },
    say(text, mention) {
      const at = `<at>${bot.name}</at>`;
      const mentions = [{ mentioned: { id: bot.id }, text: at }];
      const body = { type: 'text', text: mention ? `${at} ${text}` : text, textFormat: 'plain', from: { id: user.id }, ...(mention && { mentions }) };
      return post(`/_conversation/v1/conversations/${encodeURIComponent(place)}/messages`, body);
    },
    press(title, fill) {
      const card = inbox.since(0).findLast((message) => message.attachments?.length);
      const found = card && actionOf(card, title);
      if (!found) throw new Error(`the last card has no button ${JSON.stringify(title)}`);
      const values = Object.fromEntries(found.inputs.map((input) => [input.id, fill[input.label] ?? input.value ?? '']));
      const data = { ...found.action.data, ...values };
      if (found.action.type !== 'Action.Execute') return answerCard(card, data);
      const { type, verb } = found.action;
      const value = { action: { type, title, verb, data } };
      return post('/_conversation/v1/invoke', { name: 'adaptiveCard/action', value, from: { id: user.id }, conversation: { id: card.postConversationId ?? card.conversation }, replyToId: card.messageId });
    },
    submit: (value) => answerCard(last(), value),
    async mock(type) {
      await post('/_internal/v1/customActivities', await call(url, 'GET', `/_internal/v1/customActivities/template?conversationId=${encodeURIComponent(place)}&type=${type}`));
    },
    shot() {},
    close() {
      ws.close();
      fs.writeFileSync(path.join(dir, 'frames.json'), JSON.stringify(frames, null, 1));
    },
  };
});

// actionOf finds a card's button by its title, and the inputs that go with it.
function actionOf(message, title) {
  const inputs = [];
  let action;
  const walk = (node) => {
    if (!node || typeof node !== 'object') return;
    if (String(node.type).startsWith('Input.')) inputs.push(node);
    if (String(node.type).startsWith('Action.') && node.title === title) action = node;
    Object.values(node).forEach(walk);
  };
  walk(message.attachments.map((attachment) => attachment.content));
  return action && { action, inputs };
}
