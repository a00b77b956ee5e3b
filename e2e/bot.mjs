// Starts the built bot the way a new user does: no app id, embedded Redis, offline model.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort, here, patience, start, until } from './process.mjs';

// botBinary is BOT_BIN, or cmd/bot built from this checkout; or else the program in another folder of it. Each is built once, in a
// place of this process's own: others may run beside it.
const built = new Map();
export function botBinary(program = 'cmd/bot') {
  if (process.env.BOT_BIN && program === 'cmd/bot') return Promise.resolve(path.resolve(process.env.BOT_BIN));
  const bin = path.join(here, 'out', `${program.replaceAll('/', '-')}-${process.pid}`);
  if (!built.has(program)) built.set(program, promisify(execFile)('go', ['build', '-o', bin, `./${program}`], { cwd: path.dirname(here) }).then(() => bin));
  return built.get(program);
}

// startBot resolves once the bot says that it is ready. Nothing of the caller's
// environment reaches it but PATH and HOME, beside the scenario's settings: a key that lies around must not change a run.
export async function startBot(bin, dir, settings = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const { PATH, HOME } = process.env;
  const run = async (log) => {
    const bot = start(bin, [], { cwd: dir, log: path.join(dir, log), env: { PATH, HOME, BOT_ADDR: `127.0.0.1:${port}`, BOT_LOG_FORMAT: 'json', ...settings } });
    const ready = await until(async () => bot.over() || (await fetch(`${url}/readyz`).then((r) => r.ok, () => false)));
    if (ready && !bot.over()) return bot;
    await bot.stop(0);
    throw new Error(`the bot is not ready: ${bot.output().slice(-2000)}`);
  };
  let bot = await run('bot.log');
  return {
    endpoint: `${url}/api/messages`,
    // kill kills the process and starts another one in its place.
    async kill() {
      await bot.kill();
      bot = await run('bot-2.log');
    },
    async stop() {
      const code = await bot.stop(patience);
      if (code !== 0) throw new Error(`the bot ended with ${code ?? 'a kill'} after SIGTERM: ${bot.output().slice(-2000)}`);
    },
  };
}

// startBeside runs a program that the bot needs, and resolves once it answers.
export async function startBeside(program, dir, settings) {
  const address = `127.0.0.1:${await freePort()}`;
  const { PATH, HOME } = process.env;
  const child = start(await botBinary(program), [], { cwd: dir, log: path.join(dir, 'beside.log'), env: { PATH, HOME, ...settings, DESK_ADDR: address } });
  if (!await until(() => child.over() || fetch(`http://${address}`).then(() => true, () => false)) || child.over()) {
    await child.stop(0);
    throw new Error(`${program} did not start: ${child.output().slice(-2000)}`);
  }
  return { settings: { DESK_URL: `http://${address}` }, stop: () => child.stop(5_000) };
}
