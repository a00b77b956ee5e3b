#!/usr/bin/env node
// Checks built app packages, or a manifest.json alone, with Microsoft's own manifest validator, offline: the npm package
// ships the published schemas. (It needs fs-extra and does not say so: that is why package.json names it.)
//   node validate-manifest.mjs app.zip|manifest.json...
// Exits 0 when it is sound, 1 with a line per fault, 2 on wrong use.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import manifests from '@microsoft/app-manifest';

const files = process.argv.slice(2);
if (!files.length) {
  console.error('usage: validate-manifest.mjs app.zip|manifest.json...');
  process.exit(2);
}
let [passed, failed] = [0, 0];
for (const file of files) {
  const faults = await check(fs.readFileSync(file));
  for (const fault of faults) console.log(`not ok ${path.basename(file)}: ${fault}`);
  if (!faults.length) console.log(`ok ${path.basename(file)}`);
  failed += faults.length;
  passed += faults.length ? 0 : 1;
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

async function check(data) {
  try {
    return data.subarray(0, 2).toString() === 'PK' ? await checkPackage(unzip(data)) : (await checkManifest(data)).faults;
  } catch (err) {
    return [`the validator refuses it: ${err.message}`];
  }
}

async function checkPackage(entries) {
  const raw = entries.get('manifest.json');
  if (!raw) return ['the package has no manifest.json at its root'];
  const { icons, languages, faults } = await checkManifest(raw);
  const missing = [...icons, ...languages].filter((name) => !entries.has(name)).map((name) => `${name} is not in the package`);
  for (const name of languages.filter((name) => entries.has(name))) {
    faults.push(...(await checkLanguage(JSON.parse(entries.get(name)))).map((fault) => `${name}: ${fault}`));
  }
  return [...faults, ...missing];
}

// checkLanguage escapes the brackets of the schema's patterns that the validator's own JSON Schema library refuses.
async function checkLanguage(texts) {
  const schema = await manifests.AppManifestUtils.fetchSchema(texts.$schema);
  const patterns = Object.entries(schema.patternProperties).map(([pattern, rule]) => [pattern.replace('\\b]', '\\b\\]'), rule]);
  return manifests.AppManifestUtils.validateAgainstSchema(texts, { ...schema, patternProperties: Object.fromEntries(patterns) });
}

// checkManifest reads the manifest through a file of its own, since the validator takes only paths.
async function checkManifest(raw) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'manifest-'));
  try {
    const copy = path.join(dir, 'manifest.json');
    fs.writeFileSync(copy, raw);
    const [manifest, faults] = await manifests.AppManifestUtils.readAndValidateTeamsManifest(copy);
    const icons = Object.values(manifest.icons ?? {}).filter(Boolean); // an icon that is not declared is there as undefined
    const languages = (manifest.localizationInfo?.additionalLanguages ?? []).map(({ file }) => file);
    return { icons, languages, faults };
  } finally {
    fs.rmSync(dir, { recursive: true });
  }
}

// unzip reads a zip archive by its central directory (stored and deflated entries).
function unzip(data) {
  const entries = new Map();
  const end = data.lastIndexOf(Buffer.from('PK\x05\x06'));
  if (end < 0) throw new Error('it is no zip archive');
  for (let i = 0, at = data.readUInt32LE(end + 16); i < data.readUInt16LE(end + 10); i++) {
    const [size, nameLength, extra, comment] = [data.readUInt32LE(at + 20), data.readUInt16LE(at + 28), data.readUInt16LE(at + 30), data.readUInt16LE(at + 32)];
    const name = data.toString('utf8', at + 46, at + 46 + nameLength);
    const local = data.readUInt32LE(at + 42);
    const start = local + 30 + data.readUInt16LE(local + 26) + data.readUInt16LE(local + 28);
    const body = data.subarray(start, start + size);
    entries.set(name, data.readUInt16LE(at + 10) === 8 ? zlib.inflateRawSync(body) : body);
    at += 46 + nameLength + extra + comment;
  }
  return entries;
}
