// A server with the API of OpenAI that gives the answers of a scenario, one after another: a text, { call, arguments } for a call of a function,
// or { slowly }, a text in parts, for a bot that asks for a stream: each part is written once somebody saw the one before it.
import http from 'node:http';
import { until } from './process.mjs';

const wordsOf = (answer) => (typeof answer === 'string'
  ? { message: { role: 'assistant', content: answer }, finish_reason: 'stop' }
  : {
    message: { role: 'assistant', content: null, tool_calls: [{ id: `call${Math.random().toString(36).slice(2, 8)}`, type: 'function', function: { name: answer.call, arguments: JSON.stringify(answer.arguments) } }] },
    finish_reason: 'tool_calls',
  });

// write streams a text, a part at a time.
async function write(parts, response, seen) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (choice) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: 'scripted', choices: [{ index: 0, ...choice }] })}\n\n`);
  for (const [i, content] of parts.entries()) {
    await until(() => seen() >= i);
    send({ delta: { content }, finish_reason: null });
  }
  send({ delta: {}, finish_reason: 'stop' });
  response.end('data: [DONE]\n\n');
}

// startModel resolves with the settings that make a bot ask it. An answer that is not there is a 400, which a bot does not try again.
export async function startModel(answers) {
  const left = [...answers];
  let seen = 0; // parts
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (data) => { body += data; }).on('end', () => {
      const answer = left.shift();
      if (answer?.slowly) return write(answer.slowly, response, () => seen);
      response.writeHead(answer === undefined ? 400 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer === undefined
        ? { error: { message: 'the scenario has no more answers' } }
        : { id: 'c', object: 'chat.completion', created: 0, model: 'scripted', choices: [{ index: 0, ...wordsOf(answer) }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }));
    });
  });
  await new Promise((done, fail) => { server.once('error', fail).listen(0, '127.0.0.1', done); });
  return {
    saw: () => { seen++; },
    settings: { OPENAI_BASE_URL: `http://127.0.0.1:${server.address().port}/v1` },
    stop: () => new Promise((done) => { server.closeAllConnections(); server.close(done); }),
  };
}
