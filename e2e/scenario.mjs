// Runs the scenario files against a driver. Every scenario gets its own bot and its own client, so that none leans on another. They mostly
// wait, so a few run at a time.
//
// A step does one thing: open (a place: personal, group, channel), say (with mention: true
// behind an @mention), press (a card's button, fill: its inputs), submit (a card's value, as a
// reply to the bot's last message), mock (an activity of the client's menu), rate (like or dislike, with text: the
// bot's last message), or one of the menu of message extensions: search (words, with the id of a command), action (a
// command; fill and button: its form) or link (an address), or kill (the bot; another process goes on). Press is of
// the client's own person or, with as, of another one of its people: 1 to 5, which only its server can. Then:
//   expect      patterns; each must match some new or changed message of the bot
//   refuse      patterns that no new message may match
//   replies     how many new messages there must be, no more and no fewer
//   grows       how many texts the first new message must show one after another, each continuing the one before; a picture of each
//   shows       patterns; what the client shows of the answer to a search, an action, a link or a rating must match each
//   ai          true: every new message carries the AI-generated label
// A first element with settings holds the environment that the bot is started with, in a folder e2e/out/KIND/NAME,
// program the folder of another bot than cmd/bot, beside a program that it needs (it gets an address as DESK_ADDR, the bot its URL as DESK_URL),
// and model what the model answers, in order (model.mjs); without, it is the offline one.
import fs from 'node:fs';
import path from 'node:path';
import { botBinary, startBeside, startBot } from './bot.mjs';
import { startModel } from './model.mjs';
import { startPlayground, textOf } from './playground.mjs';
import { here, sleep, until } from './process.mjs';

const quietMs = 700; // how long nothing more may come before messages are counted
const acts = {
  open: (driver, step) => driver.open(step.open),
  say: (driver, step) => driver.say(step.say, step.mention === true),
  press: (driver, step) => driver.press(step.press, step.fill ?? {}, step.as),
  submit: (driver, step) => driver.submit(step.submit),
  mock: (driver, step) => driver.mock(step.mock),
  rate: (driver, step) => driver.rate(step.rate, step.text ?? ''),
  search: (driver, step, once) => driver.search(step.search, step.command, once),
  action: (driver, step, once) => driver.action(step.action, step.fill ?? {}, step.button, once),
  link: (driver, step, once) => driver.link(step.link, once),
  kill: (driver, step, once, bot) => bot.kill(),
};
const known = new Set([...Object.keys(acts), 'mention', 'as', 'fill', 'text', 'command', 'button', 'shows', 'expect', 'refuse', 'replies', 'grows', 'ai']);

// runAll drives the scenarios named on the command line, or all, prints a line a step and exits 1 when one failed.
// open(client, dir) gives a driver: the five acts, mark(), messages(mark), shot(name) and close(). start(endpoint, dir)
// gives the client, by default the Playground; without names files of which it lacks what they need. Beside the files there are
// checks, by their titles: each gets the endpoint of a bot of its own and a folder, and returns what is wrong, or ''. atOnce run side by side.
export async function runAll(kind, open, { start = startPlayground, without = [], checks = {}, atOnce = 3 } = {}) {
  const named = process.argv.slice(2);
  const files = named.length ? named : all(path.join(here, 'scenarios')).filter((file) => !without.includes(path.basename(file)));
  const bin = await botBinary();
  const jobs = files.map((file) => [path.basename(file, '.json'), (dir, count) => runOne(JSON.parse(fs.readFileSync(file, 'utf8')), bin, dir, open, start, count)]);
  for (const [title, check] of named.length ? [] : Object.entries(checks)) {
    jobs.push([title, async (dir, count) => {
      const began = Date.now();
      const bot = await startBot(bin, dir, { BOT_APPROVAL_ACTIONS: 'deleteList' });
      const fault = await check(bot.endpoint.replace('/api/messages', ''), dir).catch((err) => String(err.stack ?? err));
      await bot.stop();
      report(count, title, fault, Date.now() - began);
    }]);
  }
  const sum = { passed: 0, failed: 0 };
  const work = async () => {
    for (let job = jobs.shift(); job; job = jobs.shift()) {
      const [name, run] = job;
      const dir = path.join(here, 'out', kind, name.replaceAll(' ', '-'));
      fs.rmSync(dir, { recursive: true, force: true });
      fs.mkdirSync(dir, { recursive: true });
      const count = { passed: 0, failed: 0, lines: [`# ${kind}: ${name}`] };
      await run(dir, count).catch((err) => report(count, `${name}, as a whole`, String(err.stack ?? err), 0));
      console.log(count.lines.join('\n'));
      sum.passed += count.passed;
      sum.failed += count.failed;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  if (sum.passed + sum.failed === 0) sum.failed = 1; // none was run
  console.log(`${sum.passed} passed, ${sum.failed} failed`);
  process.exit(sum.failed ? 1 : 0);
}

const all = (dir) => fs.readdirSync(dir).filter((file) => file.endsWith('.json')).sort().map((file) => path.join(dir, file));

async function runOne(elements, bin, dir, open, start, count) {
  const { settings, program, beside, model: answers } = elements[0];
  const steps = settings ? elements.slice(1) : elements;
  const model = answers && await startModel(answers);
  let desk, bot, client, driver;
  try {
    desk = beside && await startBeside(beside, dir, settings);
    bot = await startBot(program ? await botBinary(program) : bin, dir, { ...model?.settings, ...desk?.settings, ...settings });
    client = await start(bot.endpoint, dir);
    driver = await open(client, dir);
    for (const [i, step] of steps.entries()) {
      const title = `${i + 1} ${JSON.stringify(step.open ?? step.say ?? step.press ?? step.submit ?? step.mock ?? step.rate ?? step.search ?? step.action ?? step.link ?? 'kill')}`;
      const began = Date.now();
      const picture = `${String(i + 1).padStart(2, '0')}-${title.replace(/[^a-z0-9]+/gi, '-').slice(0, 40)}`;
      const fault = await runStep(driver, step, picture, model, bot).catch((err) => String(err.message ?? err));
      await driver.shot(picture);
      report(count, title, fault, Date.now() - began);
    }
  } finally {
    await driver?.close();
    await client?.stop();
    await bot?.stop();
    await desk?.stop();
    await model?.stop();
  }
}

function report(count, title, fault, ms) {
  fault ? count.failed++ : count.passed++;
  count.lines.push(`${fault ? 'not ok' : 'ok'} ${title} (${ms} ms)${fault ? `\n  ${fault}` : ''}`);
}

// runStep returns what is wrong, or '' when all is as the step says.
async function runStep(driver, step, picture, model, bot) {
  const verbs = Object.keys(step).filter((key) => acts[key]);
  const strange = Object.keys(step).find((key) => !known.has(key));
  if (verbs.length !== 1 || strange) return `a wrong step: verbs ${verbs}, unknown key ${strange}`;
  const mark = driver.mark();
  const missing = (text) => patterns(step.shows).filter((want) => !want.test(text));
  // once reads what the client shows until it is all there.
  const once = async (read) => {
    let text;
    await until(async () => { text = await read(); return !missing(text).length; });
    return text;
  };
  const answer = String((await acts[verbs[0]](driver, step, once, bot)) ?? '');
  const unseen = missing(answer);
  if (unseen.length) return `nothing matches ${unseen.join(' ')} in what is shown: ${JSON.stringify(answer).slice(0, 800)}`;
  const wants = patterns(step.expect);
  const grown = await watch(driver, mark, step.grows ?? 0, picture, model);
  let got = [];
  await until(async () => {
    got = await driver.messages(mark);
    return got.length >= (step.replies ?? 0) && wants.every((want) => got.some((m) => want.test(textOf(m)))) && (!step.ai || labelled(got));
  });
  if (step.refuse || step.replies !== undefined) {
    await sleep(quietMs);
    got = await driver.messages(mark);
  }
  return judge(step, wants, got) || continues([...grown, textOf(got[0] ?? {})]);
}

// watch returns the texts that the first new message shows, one after another. The model waits for it.
async function watch(driver, mark, moments, picture, model) {
  const texts = [''];
  while (texts.length <= moments) {
    let text;
    const grew = await until(async () => { text = textOf((await driver.messages(mark))[0] ?? {}); return text && text !== texts.at(-1); });
    if (!grew) throw new Error(`wanted ${moments} texts that grow, got ${JSON.stringify(texts.slice(1))}`);
    await driver.shot(`${picture}-${texts.push(text) - 1}`);
    model.saw();
  }
  return texts;
}

// continues returns what is wrong if a text does not begin with the one before.
function continues(texts) {
  const i = texts.findIndex((text, at) => at > 0 && !text.startsWith(texts[at - 1]));
  return i < 0 ? '' : `${JSON.stringify(texts[i])} does not continue ${JSON.stringify(texts[i - 1])}`;
}

function judge(step, wants, got) {
  const texts = got.map(textOf);
  const seen = `, got ${JSON.stringify(texts).slice(0, 800)}`;
  const missing = wants.filter((want) => !texts.some((text) => want.test(text)));
  if (missing.length) return `nothing matches ${missing.join(' ')}${seen}`;
  const unwanted = patterns(step.refuse).filter((not) => texts.some((text) => not.test(text)));
  if (unwanted.length) return `unwanted ${unwanted.join(' ')}${seen}`;
  if (step.replies !== undefined && got.length !== step.replies) return `wanted ${step.replies} messages${seen}`;
  if (step.ai && !labelled(got)) return `no AI-generated label${seen}`;
  return '';
}

const labelled = (got) => got.every((message) => message.aiEntity);
const patterns = (list) => [list ?? []].flat().map((text) => new RegExp(text, 'is'));
