#!/usr/bin/env node
// Talks to the bot through the Playground's server: it builds the activities and checks what the bot posts; only its page is left out.
//   node run-api.mjs [scenario.json ...]     BOT_BIN: a built bot, else cmd/bot is built
import fs from 'node:fs';
import path from 'node:path';
import { call, Inbox, listen } from './playground.mjs';
import { runAll } from './scenario.mjs';

await runAll('api', async (client, dir) => {
  const { url, bot, user, users, places } = client;
  const inbox = new Inbox(bot.id);
  const frames = [];
  const ws = await listen(url, (frame) => { frames.push(frame); inbox.take(frame); });
  const post = (route, body) => call(url, 'POST', route, body);
  let place = places.personal;
  const last = () => inbox.since(0).at(-1) ?? { messageId: '0', conversation: place };
  const answerCard = (message, value) => post('/_conversation/v1/submit', { conversation: { id: message.postConversationId ?? message.conversation }, replyToId: message.messageId, value, from: { id: user.id } });
  const invoke = async (name, value, message) => JSON.stringify(await post('/_conversation/v1/invoke', {
    name, value, from: { id: user.id }, conversation: { id: message?.postConversationId ?? message?.conversation ?? place }, ...(message && { replyToId: message.messageId }),
  }));
  // another sends an activity of another person: the client acts for its own one alone, but sends whatever it is given.
  const another = async (as, message, activity) => {
    const sample = await call(url, 'GET', `/_internal/v1/customActivities/template?conversationId=${encodeURIComponent(place)}&type=install`);
    const { id, name, aadObjectId } = users[as - 1];
    await post('/_internal/v1/customActivities', { ...sample, action: undefined, from: { id, name, aadObjectId }, replyToId: message.messageId, ...activity });
  };
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
    press(title, fill, as) {
      const card = inbox.since(0).findLast((message) => message.attachments?.length && actionOf(message, title));
      if (!card) throw new Error(`no card has a button ${JSON.stringify(title)}`);
      const found = actionOf(card, title);
      const values = Object.fromEntries(found.inputs.map((input) => [input.id, fill[input.label] ?? input.value ?? '']));
      const data = { ...found.action.data, ...values };
      const { type, verb } = found.action;
      const execute = type === 'Action.Execute' && { name: 'adaptiveCard/action', value: { action: { type, title, verb, data }, trigger: 'manual' } };
      if (as) return another(as, card, execute ? { type: 'invoke', ...execute } : { type: 'message', value: data });
      return execute ? invoke(execute.name, execute.value, card) : answerCard(card, data);
    },
    rate: (reaction, feedback) => invoke('message/submitAction', { actionName: 'feedback', actionValue: { reaction, feedback } }, last()),
    search: (value, commandId) => invoke('composeExtension/query', { commandId, parameters: [{ value }], queryOptions: { skip: 0, count: 25 } }),
    async action(commandId, fill) {
      const form = JSON.parse(await invoke('composeExtension/fetchTask', { commandId, commandContext: 'compose', context: { theme: 'default' } }));
      const inputs = Object.fromEntries(form.task.value.card.content.body.filter((part) => part.id).map((part) => [part.id, fill[part.label] ?? part.value ?? '']));
      return invoke('composeExtension/submitAction', { commandId, commandContext: 'compose', data: { ...form.task.value.card.content.actions[0].data, ...inputs } });
    },
    link: (url) => invoke('composeExtension/queryLink', { url }),
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
