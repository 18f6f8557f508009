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

test('plugins of types that came later are kept as bytes beside the known ones', () => {
  const [FREEZE_DELEGATE, LATER] = [1, 200];
  const base = Buffer.concat([Buffer.of(1), Buffer.alloc(32, 1), Buffer.of(0), text('A'), text(''), Buffer.of(0)]);
  const plugins = [Buffer.of(FREEZE_DELEGATE, 1), Buffer.of(LATER, 1, 2, 3), Buffer.of(LATER, 4, 5)];
  const starts = plugins.map((_, at) => base.length + 9 + Buffer.concat(plugins.slice(0, at)).length);
  const internal = [FREEZE_DELEGATE, LATER].map((type, at) =>
    Buffer.concat([Buffer.of(type, OWNER), u64(starts[at]!)]),
  );
  const external = Buffer.concat([Buffer.of(LATER, OWNER, 0), u64(starts[2]!), Buffer.of(0, 0)]);
  const registry = [Buffer.of(4), count(2), ...internal, count(1), external];
  const end = base.length + 9 + Buffer.concat(plugins).length;
  const data = Buffer.concat([base, Buffer.of(3), u64(end), ...plugins, ...registry]);
  const { value } = decodeCoreAsset({ owner: CORE_PROGRAM, lamports: 1n, data });
  const authority = { type: 'Owner', address: null };
  const base64 = (at: number) => plugins[at]!.toString('base64');
  assert.deepEqual(value?.plugins, {
    known: { freeze_delegate: { data: { frozen: true }, index: 0, offset: starts[0], authority } },
    unknown: [{ index: 1, offset: starts[1], authority, type: LATER, data: base64(1) }],
    external: [],
    unknownExternal: [{ index: 2, offset: starts[2], authority, type: LATER, unknown_adapter_config: base64(2) }],
  });
});
