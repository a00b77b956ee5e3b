// Child processes of a run: free ports, waiting with a deadline, and an end that is waited for.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

export const here = path.dirname(new URL(import.meta.url).pathname);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const patience = 60_000; // ms for anything that has to come, however busy the machine is

// freePort asks the system for a loopback port that nobody listens on.
export const freePort = () => new Promise((done, fail) => {
  const server = net.createServer().once('error', fail);
  server.listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => done(port)); });
});

// until polls check, every 25 ms, and tells whether it came true in time.
export async function until(check) {
  for (const end = Date.now() + patience; ;) {
    if (await check()) return true;
    if (Date.now() > end) return false;
    await sleep(25);
  }
}

// start runs a program whose output goes to log, and to output() as text.
// stop() sends SIGTERM, waits, and resolves with the exit code (null: it had to be killed). kill() sends SIGKILL.
export function start(file, args, { log, env, cwd }) {
  fs.mkdirSync(path.dirname(log), { recursive: true });
  let text = '';
  const child = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const sink = fs.createWriteStream(log);
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { text += data; sink.write(data); });
  const ended = new Promise((done) => {
    child.once('error', (err) => { text += `${err}\n`; done(null); });
    child.once('exit', (code) => { sink.end(); done(code); });
  });
  let over = false;
  ended.then(() => { over = true; });
  const stop = async (graceMs) => {
    if (!over) child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
    const code = await ended;
    clearTimeout(timer);
    return code;
  };
  const kill = () => { child.kill('SIGKILL'); return ended; };
  return { stop, kill, output: () => text, over: () => over };
}
