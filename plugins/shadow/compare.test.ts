import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PLANTS, type Plant, plantDifference } from '../../test/helpers/planted-differences.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { compareAnswers, readAnswer } from './compare.ts';
import { explain } from './explain.ts';
import { rulesOf } from './rules.ts';

const MAX_SLOT_DISTANCE = 32;
const compare = (method: string, ours: string, theirs: string, statuses: readonly [number, number] = [200, 200]) => {
  const [own, other] = [
    readAnswer({ status: statuses[0], text: ours }),
    readAnswer({ status: statuses[1], text: theirs }),
  ];
  return compareAnswers(own, other, rulesOf(method, []), MAX_SLOT_DISTANCE).map((difference) => ({
    path: difference.path,
    kind: difference.kind,
    reason: explain(method, difference, own, other),
  }));
};
const rpc = (result: string) => `{"jsonrpc":"2.0","id":1,"result":${result}}`;

const ANSWERS: readonly (readonly [method: string, text: string])[] = [
  [
    'getAccountInfo',
    rpc(
      '{"context":{"apiVersion":"4.4.0","slot":500},"value":{"lamports":9007199254740993,"owner":"Stake","executable":false,"rentEpoch":18446744073709551615,"space":3,"data":["AQID","base64"]}}',
    ),
  ],
  [
    'getBlock',
    rpc(
      '{"blockhash":"b","parentSlot":7,"rewards":[{"pubkey":"a","lamports":1},{"pubkey":"b","lamports":2}],"transactions":[{"meta":{"fee":5000,"preBalances":[9,8,7],"err":null},"version":"legacy"},{"meta":{"fee":5001,"preBalances":[1,2,3],"err":null},"version":0}]}',
    ),
  ],
  [
    'getSignaturesForAddress',
    rpc(
      '[{"signature":"s3","slot":9,"memo":"x"},{"signature":"s2","slot":8,"memo":"y"},{"signature":"s1","slot":7,"memo":"z"}]',
    ),
  ],
  ['getAsset', '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Asset Not Found"}}'],
  [
    'GET /v1/wallet/:wallet/history',
    '{"data":[{"signature":"s2","slot":12,"fee":0.000005,"error":null,"ok":true},{"signature":"s1","slot":11,"fee":0.00001,"error":null,"ok":true}],"pagination":{"hasMore":false,"total":2}}',
  ],
];

test('planted differences of every kind are found where they are, and rightly named', () => {
  const random = createSfc32(7);
  const pick = (below: number) => (below === 0 ? 0 : random.below(below));
  const found = new Map<Plant, number>();
  for (let round = 0; round < 40; round += 1)
    for (const plant of PLANTS)
      for (const [method, text] of ANSWERS) {
        const planted = plantDifference(text, plant, pick);
        if (planted === null) continue;
        const differences = compare(method, text, planted.text, [200, planted.status ?? 200]);
        assert.deepEqual(
          differences.map(({ path, kind }) => ({ path, kind })),
          [{ path: planted.path, kind: plant }],
          `${plant} in ${method}: ${planted.text}`,
        );
        assert.equal(differences[0]?.reason, '', `${plant} at ${planted.path}`);
        found.set(plant, (found.get(plant) ?? 0) + 1);
      }
  for (const plant of PLANTS) assert.ok((found.get(plant) ?? 0) >= 40, `${plant} was planted`);
});

test('an answer is equal to itself in another order of members, in another envelope', () => {
  for (const [method, text] of ANSWERS) assert.deepEqual(compare(method, text, ` ${text} `), []);
  assert.deepEqual(compare('getSlot', rpc('100'), '{"result":120,"id":"x","jsonrpc":"2.0"}'), []);
  assert.deepEqual(compare('getSlot', rpc('100'), rpc('133'))[0]?.kind, 'slot');
});

test('numbers are equal by their value, also beyond a double', () => {
  assert.deepEqual(compare('x', '{"a":1.0,"b":1e2}', '{"a":1,"b":100}'), []);
  assert.equal(compare('x', '{"a":9007199254740992}', '{"a":9007199254740993}')[0]?.kind, 'precision');
  assert.deepEqual(compare('x', '{"a":9007199254740993}', '{"a":9007199254740993}'), []);
  assert.equal(compare('x', '{"a":0.1}', '{"a":0.10000000000000000001}')[0]?.kind, 'precision');
});

test('lists of accounts have no order; those of signatures have', () => {
  const accounts = (keys: readonly string[]) => rpc(JSON.stringify(keys.map((pubkey) => ({ pubkey, account: {} }))));
  assert.deepEqual(compare('getProgramAccounts', accounts(['a', 'b', 'c']), accounts(['c', 'a', 'b'])), []);
  assert.equal(compare('getSignaturesForAddress', accounts(['a', 'b']), accounts(['b', 'a']))[0]?.kind, 'order');
});

test('a cursor is compared by whether there is one', () => {
  const page = (cursor: string | null) => rpc(JSON.stringify({ accounts: [], paginationKey: cursor }));
  assert.deepEqual(compare('getProgramAccountsV2', page('ours'), page('theirs')), []);
  assert.equal(compare('getProgramAccountsV2', page(null), page('theirs'))[0]?.kind, 'null');
  const rest = (cursor: string) => JSON.stringify({ data: [], pagination: { hasMore: true, nextCursor: cursor } });
  assert.deepEqual(compare('GET /v1/wallet/:wallet/transfers', rest('ours'), rest('theirs')), []);
});

test('lag, dialect and documented differences are explained, others are not', () => {
  const at = (slot: number, value: unknown) => rpc(JSON.stringify({ context: { slot }, value }));
  assert.equal(compare('getBalance', at(5, 1), at(7, 2))[0]?.reason, 'lag');
  assert.equal(compare('getBalance', at(5, 1), at(5, 2))[0]?.reason, '');
  assert.equal(compare('getBalance', at(5, { a: 1 }), at(7, { b: 1 }))[0]?.reason, '', 'a form does not lag');
  assert.equal(compare('getTransaction', rpc('null'), rpc('{"slot":5}'))[0]?.reason, 'lag');
  assert.equal(compare('x', '{"a":1,"b":null}', '{"a":1}')[0]?.reason, 'dialect');
  const error = (code: number, message: string) => JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code, message } });
  assert.equal(compare('x', error(-32_602, 'a'), error(-32_602, 'b'))[0]?.reason, 'dialect');
  assert.match(compare('x', error(-32_001, 'a'), error(-32_401, 'a'))[0]?.reason ?? '', /^known/);
  for (const code of [-32_002, -32_003])
    assert.equal(compare('x', error(code, 'a'), error(-32_602, 'b'))[0]?.reason, 'unavailable');
  assert.equal(compare('x', error(-32_602, 'a'), error(-32_000, 'b'))[0]?.reason, '');
  assert.equal(compare('x', '{"a":1}', '{"a":1}', [200, 203])[0]?.reason, '', 'no refusal on either side');
  const token = (error: string, info: unknown) =>
    JSON.stringify([{ account: 'a', onChainAccountInfo: { accountInfo: info, error } }]);
  const reasons = (ours: string, theirs: string) =>
    compare('POST /v0/token-metadata', ours, theirs).map(({ reason }) => reason);
  assert.deepEqual(reasons(token('TIMEOUT', null), token('', {})), ['unavailable', 'unavailable']);
  assert.deepEqual(reasons(token('UNKNOWN', null), token('', {})), ['', '']);
  const tokens = (...all: string[]) => JSON.stringify(all.flatMap((text) => JSON.parse(text) as unknown[]));
  assert.deepEqual(
    reasons(tokens(token('TIMEOUT', null), token('', 1)), tokens(token('', {}), token('', 2))),
    ['', '', ''],
    'another token differs in the same section',
  );
  assert.deepEqual(reasons(tokens(token('TIMEOUT', null), token('', 1)), tokens(token('', {}), token('', 1))), [
    'unavailable',
    'unavailable',
  ]);
  const refused = compare('GET /v1/wallet/:wallet/history', '{"error":"later","code":503}', '{"data":[]}', [503, 200]);
  assert.match(refused[0]?.reason ?? '', /^known: the first call/);
});
