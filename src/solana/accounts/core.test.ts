import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stringify } from '../../lib/json.ts';
import { CORE_PROGRAM } from '../programs.ts';
import { decodeCoreAsset } from './core.ts';

const text = (value: string) => Buffer.concat([count(value.length), Buffer.from(value)]);
const count = (value: number) => Buffer.of(value, 0, 0, 0);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const [APP_DATA, OWNER, JSON_SCHEMA] = [2, 1, 1];

/** An asset with the plugin AppData, whose data are this text. */
function assetWith(json: string): Buffer {
  const base = Buffer.concat([Buffer.of(1), Buffer.alloc(32, 1), Buffer.of(0), text('A'), text(''), Buffer.of(0)]);
  const plugin = Buffer.of(APP_DATA, OWNER, JSON_SCHEMA);
  const data = Buffer.from(json);
  const pluginAt = base.length + 9;
  const dataAt = pluginAt + plugin.length;
  const record = [Buffer.of(APP_DATA, 2, 0), u64(pluginAt), Buffer.of(1), u64(dataAt), Buffer.of(1), u64(data.length)];
  const registry = [Buffer.of(4), count(0), count(1), ...record];
  return Buffer.concat([base, Buffer.of(3), u64(dataAt + data.length), plugin, data, ...registry]);
}

test('numbers in the JSON that an application keeps in an asset are shown as they are', () => {
  const json = '{"a":18446744073709551615,"b":[9007199254740993,1e400,-0,0.1],"c":{"d":0.12345678901234567890}}';
  const { value } = decodeCoreAsset({ owner: CORE_PROGRAM, lamports: 1n, data: assetWith(json) });
  assert.ok(stringify(value).includes(`"data":${json}`), stringify(value));
});
