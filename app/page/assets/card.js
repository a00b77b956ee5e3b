// Draws cards with Microsoft's library. Their texts come as HTML from the server, which makes it safe.
import { policy } from './live.js';
import { isDark } from './theme.js';

const config = (dark) => {
  const c = (light, onDark) => ({ default: dark ? onDark : light, subtle: dark ? onDark : light });
  const set = {
    default: c('#1b1c20', '#ececf1'), accent: c('#4549a8', '#a9acff'), good: c('#1b6e3c', '#7fd6a2'), warning: c('#7a5200', '#f0c674'),
    attention: c('#a3231f', '#ff9d97'), light: c('#55575f', '#b3b5bf'), dark: c('#000000', '#ffffff'),
  };
  const style = (back, border) => ({ backgroundColor: back, borderColor: border, foregroundColors: set });
  const line = dark ? '#3d404a' : '#d5d6de';
  return {
    fontFamily: 'system-ui, sans-serif', supportsInteractivity: true,
    fontSizes: { small: 12, default: 14, medium: 16, large: 19, extraLarge: 23 },
    separator: { lineThickness: 1, lineColor: line },
    containerStyles: {
      default: style(dark ? '#212329' : '#ffffff', line), emphasis: style(dark ? '#2a2d35' : '#f0f0f5', line), accent: style(dark ? '#2c2f52' : '#e9eaf9', line),
      good: style(dark ? '#1d3527' : '#e7f4ec', line), attention: style(dark ? '#43201f' : '#fdeceb', line), warning: style(dark ? '#3a2f16' : '#fdf3dc', line),
    },
    actions: { maxActions: 6, buttonSpacing: 8, actionsOrientation: 'horizontal', actionAlignment: 'left', showCard: { actionMode: 'inline', inlineTopMargin: 8 } },
  };
};

/** Whether a card may lead there. */
const leads = (url) => { try { return ['http:', 'https:', 'mailto:'].includes(new URL(url).protocol); } catch { return false; } };

/** The actions of a card that lead where none may. */
function refusedLinks(node) {
  if (typeof node !== 'object' || !node) return [];
  const all = Object.values(node).flatMap(refusedLinks);
  if (node.type === 'Action.OpenUrl' && !leads(node.url)) all.push({ title: node.title ?? '', url: node.url });
  return all;
}

let loading;
/** The library, which is large: it is loaded once there is a card. */
function library() {
  loading ??= new Promise((done, fail) => {
    const script = document.createElement('script');
    script.src = policy.createScriptURL(new URL('adaptivecards.min.js', import.meta.url).href);
    script.onload = () => {
      const ac = globalThis.AdaptiveCards;
      ac.GlobalRegistry.elements.unregister('Carousel'); // it needs a policy of its own, and Teams shows none
      done(ac);
    };
    script.onerror = fail;
    document.head.append(script);
  });
  return loading;
}

function draw(part, press, ac) {
  const card = new ac.AdaptiveCard();
  const json = JSON.parse(part.dataset.card);
  const texts = JSON.parse(part.dataset.texts);
  card.hostConfig = new ac.HostConfig(config(isDark()));
  card.onExecuteAction = (action) => {
    if (action instanceof ac.OpenUrlAction) {
      if (leads(action.url) && confirm(`Open ${action.url}?`)) open(action.url, '_blank', 'noopener,noreferrer');
      return;
    }
    const type = action.getJsonTypeName();
    if (type !== 'Action.Execute' && type !== 'Action.Submit') return;
    const data = typeof action.data === 'object' ? action.data : { data: action.data };
    press(part.closest('[data-message]').dataset.message, { type, title: action.title ?? '', verb: action.verb ?? '', id: action.id ?? '', data });
  };
  ac.AdaptiveCard.onProcessMarkdown = (text, result) => {
    if (Object.hasOwn(texts, text)) {
      result.outputHtml = texts[text];
      result.didProcess = true;
    }
  };
  const context = new ac.SerializationContext();
  try {
    card.parse(json, context);
    const made = card.render();
    if (!made) return;
    part.querySelectorAll(':scope > :not(.words)').forEach((el) => el.remove());
    part.append(made);
    part.classList.add('drawn');
    const unknown = [];
    for (let i = 0; i < context.eventCount; i++) unknown.push(context.getEventAt(i).message);
    const say = (words, kind) => {
      const note = document.createElement('p');
      note.className = kind;
      note.textContent = words;
      part.append(note);
    };
    if (unknown.length) say(`Teams may show more here: ${unknown.join(' ')}`, 'dim');
    for (const { title, url } of refusedLinks(json)) say(`The button “${title}” was refused: it leads to ${url}`, 'note');
  } catch (err) {
    const note = document.createElement('p');
    note.className = 'fault';
    note.textContent = `This card cannot be drawn: ${err.message}`;
    part.append(note);
  }
}

/** Draws the cards of a part that are not drawn yet, or all of them. */
export async function drawCards(part, press, again) {
  const ac = await library();
  for (const one of part.querySelectorAll('.card')) {
    if (again || !one.classList.contains('drawn')) draw(one, press, ac);
  }
}
