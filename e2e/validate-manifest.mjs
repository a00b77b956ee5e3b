#!/usr/bin/env node
// Checks a built app package with Microsoft's own manifest validator, offline: the npm package ships the published schemas.
// (It needs fs-extra and does not say so: that is why package.json names it.)
//   node validate-manifest.mjs app.zip
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import manifests from '@microsoft/app-manifest';

const [zip] = process.argv.slice(2);
if (!zip) {
  console.error('usage: validate-manifest.mjs app.zip');
  process.exit(2);
}
const files = unzip(fs.readFileSync(zip));
const faults = await check(files);
for (const fault of faults) console.log(`not ok ${fault}`);
if (!faults.length) console.log(`ok ${path.basename(zip)}: ${[...files.keys()].join(', ')}`);
console.log(`${faults.length ? 0 : 1} passed, ${faults.length} failed`);
process.exit(faults.length ? 1 : 0);

async function check(entries) {
  const raw = entries.get('manifest.json');
  if (!raw) return ['the package has no manifest.json at its root'];
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'manifest-'));
  try {
    const file = path.join(dir, 'manifest.json');
    fs.writeFileSync(file, raw);
    const [manifest, problems] = await manifests.AppManifestUtils.readAndValidateTeamsManifest(file);
    const icons = Object.values(manifest.icons ?? {}).filter((icon) => !entries.has(icon)).map((icon) => `icon ${icon} is not in the package`);
    return [...problems, ...icons];
  } catch (err) {
    return [`the validator refuses it: ${err.message}`];
  } finally {
    fs.rmSync(dir, { recursive: true });
  }
}

// unzip reads a zip archive by its central directory (stored and deflated entries).
function unzip(data) {
  const entries = new Map();
  const end = data.lastIndexOf(Buffer.from('PK\x05\x06'));
  if (end < 0) throw new Error(`${zip} is no zip archive`);
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
